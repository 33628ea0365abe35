"""A JobControl that answers from memory, and the commands pointed at it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import grpc
from google.protobuf.timestamp_pb2 import Timestamp
from grpc_status import rpc_status
from typer.testing import CliRunner, Result

from job_api.client import JobId, errors
from shared.command.commands import build
from shared.domain.errors import BatonError
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_control_pb2_grpc, job_pb2
from shared.rpc.status import rich_status
from tests.support.remembering_batches import RememberingBatches
from tests.support.remembering_operators import RememberingOperators
from tests.support.scripted_control import JOB, a_job

OTHER = "0197f3f0-0000-7000-8000-000000000002"


class RememberingServicer(RememberingBatches, RememberingOperators):
    """One job, told as it is set here; `refusal` is what every call is answered with, if it is set."""

    def __init__(self) -> None:
        RememberingBatches.__init__(self)
        RememberingOperators.__init__(self)
        self.job = a_job()
        self.attempts: list[job_pb2.Attempt] = []
        self.timings = job_pb2.JobTimings()
        self.refusal: BatonError | None = None
        self.updates: list[pb.WatchJobResponse] = []
        self.changes: list[pb.WatchJobsResponse] = []
        self.viewed: list[pb.WatchJobsRequest] = []
        self.created: list[pb.CreateJobRequest] = []
        self.uploaded = b""
        self.output = b'{"items": 3}'
        self.listed: list[pb.ListJobsRequest] = []
        self.retried: list[pb.RetryJobRequest] = []
        self.selected: list[pb.CancelJobsRequest | pb.RetryJobsRequest] = []

    def CreateJob(self, request: Any, context: Any) -> pb.CreateJobResponse:
        self._refuse(context)
        self.created.append(request)
        return pb.CreateJobResponse(job=self.job)

    def UploadInput(self, request_iterator: Any, context: Any) -> pb.UploadInputResponse:
        self.uploaded = b"".join(part.chunk for part in request_iterator)
        return pb.UploadInputResponse(upload_id=OTHER)

    def GetJob(self, request: Any, context: Any) -> pb.GetJobResponse:
        if request.job_id != self.job.job_id:
            self._abort(context, errors.JobNotFound(JobId(UUID(request.job_id))))
        self._refuse(context)
        return pb.GetJobResponse(job=self.job, attempts=self.attempts, timings=self.timings)

    def GetJobOutput(self, request: Any, context: Any) -> pb.GetJobOutputResponse:
        return pb.GetJobOutputResponse(output=self.output)

    def ListJobs(self, request: Any, context: Any) -> pb.ListJobsResponse:
        self.listed.append(request)
        return pb.ListJobsResponse(jobs=[self.job, self.job], next_page_token="more")

    def ListJobDefinitions(self, request: Any, context: Any) -> pb.ListJobDefinitionsResponse:
        taking = job_pb2.JobDefinition(
            job_type="document_import", input_schema=b'{"properties": {"upload_id": {}}}'
        )
        other = job_pb2.JobDefinition(job_type="synthetic", input_schema=b'{"properties": {}}')
        return pb.ListJobDefinitionsResponse(definitions=[taking, other])

    def ListAttempts(self, request: Any, context: Any) -> pb.ListAttemptsResponse:
        attempt = job_pb2.Attempt(number=1, executor_name="executor-1", start_time=Timestamp(seconds=1))
        return pb.ListAttemptsResponse(attempts=[attempt])

    def ListArtifacts(self, request: Any, context: Any) -> pb.ListArtifactsResponse:
        content = b'{"text": "a"}' if request.include_content else b""
        artifact = job_pb2.Artifact(type="knowledge_item", artifact_id="1", ordinal=1, content=content)
        return pb.ListArtifactsResponse(artifacts=[artifact])

    def CancelJob(self, request: Any, context: Any) -> pb.CancelJobResponse:
        self._refuse(context)
        return pb.CancelJobResponse(job=self.job)

    def RetryJob(self, request: Any, context: Any) -> pb.RetryJobResponse:
        self._refuse(context)
        self.retried.append(request)
        return pb.RetryJobResponse(job=self.job)

    def CancelJobs(self, request: Any, context: Any) -> pb.CancelJobsResponse:
        self.selected.append(request)
        return pb.CancelJobsResponse(count=2, next_page_token="" if request.page_token else "more")

    def RetryJobs(self, request: Any, context: Any) -> pb.RetryJobsResponse:
        self.selected.append(request)
        return pb.RetryJobsResponse(count=1)

    def WatchJob(self, request: Any, context: Any) -> Iterator[pb.WatchJobResponse]:
        yield from self.updates
        if self.updates and self.updates[-1].HasField("ended"):
            return
        while context.is_active():
            yield pb.WatchJobResponse(keep_alive=pb.KeepAlive())
            self._wait(context)

    def WatchJobs(self, request: Any, context: Any) -> Iterator[pb.WatchJobsResponse]:
        self._refuse(context)
        self.viewed.append(request)
        yield pb.WatchJobsResponse(began=pb.ViewBegan())
        yield from self.changes
        if not context.is_active():
            return
        self.refusal = errors.PermissionDenied("jobs.read")  # to whoever comes again
        yield pb.WatchJobsResponse(ended=pb.WatchEnded(reason=pb.WATCH_END_REASON_DRAINING))

    def _wait(self, context: Any) -> None:
        over = threading.Event()
        if context.add_callback(over.set):
            over.wait(10)

    def _refuse(self, context: Any) -> None:
        if self.refusal is not None:
            self._abort(context, self.refusal)

    def _abort(self, context: Any, error: BatonError) -> None:
        context.abort_with_status(rpc_status.to_status(rich_status(error)))


@dataclass
class Service:
    """The service, and the command pointed at it."""

    address: str
    servicer: RememberingServicer
    stop: Callable[[], object] = lambda: None

    def run(self, *arguments: str, stdin: str = "") -> Result:
        return CliRunner(env={"BATON_CONTROL_ADDRESS": self.address}).invoke(
            build(), list(arguments), input=stdin
        )

    def ends(self, state: job_pb2.JobState.ValueType, kind: job_pb2.JobEventKind.ValueType) -> None:
        """Have the job end so, after some progress and streamed text."""
        self.servicer.job = a_job(state=state)
        progress = pb.JobProgress(attempt=1, progress=50, progress_message="page 1 of 2")
        self.servicer.updates = [
            pb.WatchJobResponse(progress=progress, cursor="a"),
            pb.WatchJobResponse(piece=pb.WatchedPiece(attempt=1, number=1, text="first li"), cursor="b"),
            pb.WatchJobResponse(piece=pb.WatchedPiece(attempt=1, number=2, text="ne\nsecond"), cursor="c"),
            pb.WatchJobResponse(event=an_event(kind, state), cursor="d"),
            pb.WatchJobResponse(ended=pb.WatchEnded(reason=pb.WATCH_END_REASON_FINISHED)),
        ]


def an_event(kind: job_pb2.JobEventKind.ValueType, state: job_pb2.JobState.ValueType) -> job_pb2.JobEvent:
    return job_pb2.JobEvent(job_id=JOB, number=2, kind=kind, state=state, event_time=Timestamp(seconds=1))


@contextmanager
def remembering_control() -> Iterator[Service]:
    server = grpc.server(ThreadPoolExecutor(max_workers=4))
    servicer = RememberingServicer()  # type: ignore[abstract] # what is not here is not called
    job_control_pb2_grpc.add_JobControlServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield Service(f"127.0.0.1:{port}", servicer, stop=lambda: server.stop(grace=None).wait())
    server.stop(grace=None).wait()
