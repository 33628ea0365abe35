"""The Python client: blocking, typed, and all that a caller needs to import.

with Client("127.0.0.1:7410") as client:
    job = client.create_job("synthetic", {"items": 3})
    for update in client.watch(job.job_id):
        ...
"""

from job_api.client.client import PAGE_SIZE_MAX, Client
from job_api.client.failures import CallFailed
from job_api.client.views import (
    ArtifactView,
    AttemptView,
    DefinitionView,
    JobView,
    Piece,
    Progress,
    Update,
    Upload,
)
from shared.domain import errors
from shared.domain.attempts import AttemptOutcome
from shared.domain.errors import BatonError
from shared.domain.events import JobEvent, JobEventKind
from shared.domain.identity import JobId, UploadId
from shared.domain.jobs import TERMINAL_STATES, JobError, JobState, Target

__all__ = [
    "PAGE_SIZE_MAX",
    "TERMINAL_STATES",
    "ArtifactView",
    "AttemptOutcome",
    "AttemptView",
    "BatonError",
    "CallFailed",
    "Client",
    "DefinitionView",
    "JobError",
    "JobEvent",
    "JobEventKind",
    "JobId",
    "JobState",
    "JobView",
    "Piece",
    "Progress",
    "Target",
    "Update",
    "Upload",
    "UploadId",
    "errors",
]
