"""What becomes of a job that somebody waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from job_api.client.json_form import as_json
from job_api.client.views import ArtifactView, JobView
from shared.domain.identity import JobId
from shared.domain.jobs import JobError, JobState


@dataclass(frozen=True, slots=True)
class JobResult:
    """What a job that SUCCEEDED has made.

    Attributes:
        output: None if its definition keeps none; its artifacts are there all the same.
        artifacts: In order, with their content.
    """

    job: JobView
    output: Any
    artifacts: Sequence[ArtifactView]

    def to_json(self) -> dict[str, Any]:
        return as_json(self)


class NoResult(Exception):
    """A job that was waited for has no result.

    Attributes:
        job: As it was seen last.
    """

    def __init__(self, job: JobView, message: str) -> None:
        super().__init__(f"{job.job_type} job {job.job_id} {message}")
        self.job = job

    @property
    def job_id(self) -> JobId:
        return self.job.job_id


class JobFailed(NoResult):
    """It ended FAILED: its attempts are used up, or trying again could not help.

    Attributes:
        error: Why.
    """

    def __init__(self, job: JobView) -> None:
        self.error = job.error or JobError("", "")
        super().__init__(job, f"failed: {self.error.code}: {self.error.message}")


class JobCancelled(NoResult):
    """It ended CANCELLED: somebody asked for it, or it had not started in time."""

    def __init__(self, job: JobView) -> None:
        super().__init__(job, "was cancelled")


class JobUnfinished(NoResult):
    """The caller's time ran out; the job goes on, and can be watched, waited for or cancelled."""

    def __init__(self, job: JobView) -> None:
        super().__init__(job, "had not ended in time; it goes on")


def require_success(job: JobView) -> None:
    """Pass a job that has SUCCEEDED.

    Raises:
        JobFailed: It ended so.
        JobCancelled: It ended so.
        JobUnfinished: It has not ended.
    """
    match job.state:
        case JobState.SUCCEEDED:
            return
        case JobState.FAILED:
            raise JobFailed(job)
        case JobState.CANCELLED:
            raise JobCancelled(job)
        case _:
            raise JobUnfinished(job)
