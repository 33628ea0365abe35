"""A JobControl behind a real server, which plays scripts to the clients that call it."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_control_pb2_grpc, job_pb2
from tests.support.scripted_control import JOB, a_job

Ending = Callable[[grpc.ServicerContext], None]
Script = tuple[list[pb.WatchJobResponse], Ending]


class ScriptedServicer(job_control_pb2_grpc.JobControlServicer):
    """Plays one script for each stream that is opened; a further stream is refused.

    Attributes:
        refusals: How calls that create end, each once, before one succeeds.
        holding: Whether calls of CreateJobs wait as those of GetJob do.
        released: Set once calls that wait are to be answered.
        waiting: Set once a call waits.
        left: Set once a call of GetJob or a stream is over, however it ended.
    """

    def __init__(self, *scripts: Script, refusals: Sequence[Ending] = (), holding: bool = False) -> None:
        self._scripts = list(scripts)
        self._refusals = list(refusals)
        self._holding = holding
        self.asked: list[pb.WatchJobRequest] = []
        self.created: list[pb.CreateJobRequest] = []
        self.shared: list[pb.CreateJobsRequest] = []
        self.released, self.waiting, self.left = threading.Event(), threading.Event(), threading.Event()
        self.parts: list[pb.UploadInputRequest] = []

    def WatchJob(self, request: Any, context: Any) -> Iterator[pb.WatchJobResponse]:
        context.add_callback(self.left.set)
        self.asked.append(request)
        messages, end = self._scripts.pop(0)
        yield from messages
        end(context)

    def CreateJob(self, request: Any, context: Any) -> pb.CreateJobResponse:
        self.created.append(request)
        if self._refusals:
            self._refusals.pop(0)(context)
        return pb.CreateJobResponse(job=a_job())

    def CreateJobs(self, request: Any, context: Any) -> pb.CreateJobsResponse:
        self.shared.append(request)
        self.waiting.set()
        if self._holding:
            self.released.wait(10)
        if self._refusals:
            self._refusals.pop(0)(context)
        created = pb.CreateJobOutcome(created=pb.CreateJobResponse(job=a_job()))
        return pb.CreateJobsResponse(outcomes=[created] * len(request.jobs))

    def UploadInput(self, request_iterator: Any, context: Any) -> pb.UploadInputResponse:
        self.parts = list(request_iterator)
        document = b"".join(part.chunk for part in self.parts)
        return pb.UploadInputResponse(
            upload_id=JOB, document_bytes=len(document), sha256=hashlib.sha256(document).hexdigest()
        )

    def GetJob(self, request: Any, context: Any) -> pb.GetJobResponse:
        context.add_callback(self.left.set)
        self.waiting.set()
        self.released.wait(10)
        return pb.GetJobResponse(job=a_job())


def playing(*scripts: Script, **how: Any) -> ScriptedServicer:
    return ScriptedServicer(*scripts, **how)  # type: ignore[abstract] # what is not scripted is not called


@contextmanager
def serving(servicer: ScriptedServicer) -> Iterator[str]:
    """Serve on a free port, and yield the address."""
    server = grpc.server(ThreadPoolExecutor(max_workers=4))
    job_control_pb2_grpc.add_JobControlServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        servicer.released.set()
        server.stop(grace=1).wait()


def event(number: int, kind: job_pb2.JobEventKind.ValueType) -> pb.WatchJobResponse:
    told = job_pb2.JobEvent(
        job_id=JOB, number=number, kind=kind, state=job_pb2.JOB_STATE_RUNNING, event_time=Timestamp(seconds=1)
    )
    return pb.WatchJobResponse(event=told, cursor=f"after-{number}")


def ended(reason: pb.WatchEndReason.ValueType) -> pb.WatchJobResponse:
    return pb.WatchJobResponse(ended=pb.WatchEnded(reason=reason))


def quietly(context: grpc.ServicerContext) -> None:
    """End the stream with OK, whatever was said before."""


def staying(context: grpc.ServicerContext) -> None:
    """Say nothing more until the stream is left."""
    over = threading.Event()
    if context.add_callback(over.set):
        over.wait(10)


def aborting(code: grpc.StatusCode, message: str = "") -> Ending:
    return lambda context: context.abort(code, message)


CREATED = event(1, job_pb2.JOB_EVENT_KIND_CREATED)
STARTED = event(2, job_pb2.JOB_EVENT_KIND_STARTED)
SUCCEEDED = event(3, job_pb2.JOB_EVENT_KIND_SUCCEEDED)
FINISHED = ended(pb.WATCH_END_REASON_FINISHED)

BREAKS: dict[str, tuple[list[pb.WatchJobResponse], Ending]] = {
    "no last word": ([], quietly),
    "unavailable": ([], aborting(grpc.StatusCode.UNAVAILABLE, "going away")),
    "cancelled": ([], aborting(grpc.StatusCode.CANCELLED)),
    "reset": ([], aborting(grpc.StatusCode.INTERNAL, "Received RST_STREAM with error code 2")),
    "slow": ([ended(pb.WATCH_END_REASON_SLOW)], quietly),
    "draining": ([ended(pb.WATCH_END_REASON_DRAINING)], quietly),
}
"""Last words of streams that a watch survives, and how they end."""
