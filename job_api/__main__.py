"""`python -m job_api`: the API service, as `baton api` runs it."""

from __future__ import annotations

import sys

from job_api.app import run
from job_api.settings import ApiSettings
from shared.runtime import processes


def main() -> int:
    """Run until told to stop; returns the exit code."""
    return processes.run(lambda: run(processes.begin(ApiSettings)))


if __name__ == "__main__":
    sys.exit(main())
