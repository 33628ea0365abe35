"""`python -m job_worker`: the worker service, as `baton worker` runs it."""

from __future__ import annotations

import sys

from job_worker.app import run
from job_worker.settings import WorkerSettings
from shared.runtime import processes


def main() -> int:
    """Run until told to stop; returns the exit code."""
    return processes.run(lambda: run(processes.begin(WorkerSettings)))


if __name__ == "__main__":
    sys.exit(main())
