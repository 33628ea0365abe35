"""Jobs as they change, a line for each change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from job_api.command import show

if TYPE_CHECKING:
    from job_api.client import JobChange


def change_line(change: JobChange) -> None:
    """Print a job as it is now, with the time at which this machine heard of it."""
    job = change.job
    error = job.error or job.last_attempt_error
    parts = [
        f"{show.now().astimezone():%H:%M:%S}",
        f"{job.job_id}",
        job.job_type,
        f"{job.state}",
        f"attempt {job.attempt}" if job.attempt else "",
        f"{job.progress} % {job.progress_message}".rstrip() if job.attempt and not job.ended else "",
        f"{error.code}: {error.message}" if error else "",
        "fits no longer" if change.left else "",
    ]
    show.line("  ".join(part for part in parts if part), style=show.state_style(job.state))
