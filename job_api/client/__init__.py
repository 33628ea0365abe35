"""The Python client: typed, for asyncio and for programs that block, and all that a caller needs to import.

async with AsyncClient("127.0.0.1:7410") as client:
    result = await client.run("synthetic", {"items": 3})

with Client("127.0.0.1:7410") as client:
    job = client.create_job("synthetic", {"items": 3})
    for update in client.watch(job.job_id):
        ...
"""

from job_api.client import errors
from job_api.client.asks import PAGE_SIZE_MAX, JobOptions
from job_api.client.async_client import AsyncClient
from job_api.client.audit_asks import AuditFilter, AuditRecordView
from job_api.client.batch_asks import BatchFilter, BatchOptions
from job_api.client.batch_views import (
    BatchEstimateView,
    BatchItemView,
    BatchUnfinished,
    BatchUpdate,
    BatchView,
    ItemsRetriedView,
)
from job_api.client.client import Client
from job_api.client.failures import CallFailed
from job_api.client.operator_views import (
    ExecutorView,
    OutboxMessageView,
    PauseView,
    QueueView,
    WaitReasonView,
)
from job_api.client.results import JobCancelled, JobFailed, JobResult, JobUnfinished, NoResult
from job_api.client.selecting import JobFilter
from job_api.client.views import (
    ArtifactView,
    AttemptView,
    DefinitionView,
    FeedEventView,
    JobChange,
    JobView,
    Piece,
    Progress,
    ShownJobView,
    Update,
    Upload,
    ViewBegan,
)
from job_api.client.watching import TimeOver
from shared.domain.attempts import AttemptOutcome
from shared.domain.batches import BatchCounters, BatchEvent, BatchState
from shared.domain.errors import BatonError
from shared.domain.events import JobEvent, JobEventKind, OutboxState
from shared.domain.identity import BatchId, JobId, UploadId
from shared.domain.jobs import TERMINAL_STATES, JobError, JobState, Target, WaitCause
from shared.domain.timings import JobTimings
from shared.rpc.tls import Tls

__all__ = [
    "PAGE_SIZE_MAX",
    "TERMINAL_STATES",
    "ArtifactView",
    "AsyncClient",
    "AttemptOutcome",
    "AttemptView",
    "AuditFilter",
    "AuditRecordView",
    "BatchCounters",
    "BatchEstimateView",
    "BatchEvent",
    "BatchFilter",
    "BatchId",
    "BatchItemView",
    "BatchOptions",
    "BatchState",
    "BatchUnfinished",
    "BatchUpdate",
    "BatchView",
    "BatonError",
    "CallFailed",
    "Client",
    "DefinitionView",
    "ExecutorView",
    "FeedEventView",
    "ItemsRetriedView",
    "JobCancelled",
    "JobChange",
    "JobError",
    "JobEvent",
    "JobEventKind",
    "JobFailed",
    "JobFilter",
    "JobId",
    "JobOptions",
    "JobResult",
    "JobState",
    "JobTimings",
    "JobUnfinished",
    "JobView",
    "NoResult",
    "OutboxMessageView",
    "OutboxState",
    "PauseView",
    "Piece",
    "Progress",
    "QueueView",
    "ShownJobView",
    "Target",
    "TimeOver",
    "Tls",
    "Update",
    "Upload",
    "UploadId",
    "ViewBegan",
    "WaitCause",
    "WaitReasonView",
    "errors",
]
