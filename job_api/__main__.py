"""Starts an API process: `python -m job_api`."""

from __future__ import annotations

import sys

from job_api import app
from job_api.settings import ApiSettings
from shared.runtime import processes


def main() -> int:
    """Read the settings and serve; return the exit code."""
    with processes.expected_errors() as outcome:
        settings = processes.begin(ApiSettings)
        return processes.run(lambda: app.run(settings))
    return outcome.exit_code


if __name__ == "__main__":
    sys.exit(main())
