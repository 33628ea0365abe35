"""From what a live view shows to messages."""

from __future__ import annotations

from typing import assert_never

from job_api.operations.live_watching import Began, LiveUpdate, Shown
from job_api.operations.subscriptions import EndReason, KeepAlive
from job_api.rpc.messages import job_message
from job_api.rpc.watch_messages import END_REASONS
from shared.gen.baton.v1 import job_control_pb2 as pb


def live_message(update: LiveUpdate, *, inside: bool) -> pb.WatchJobsResponse:
    match update:
        case Shown(job, left):
            return pb.WatchJobsResponse(job=job_message(job, inside=inside), left=left)
        case Began():
            return pb.WatchJobsResponse(began=pb.ViewBegan())
        case KeepAlive():
            return pb.WatchJobsResponse(keep_alive=pb.KeepAlive())
        case EndReason() as reason:
            return pb.WatchJobsResponse(ended=pb.WatchEnded(reason=END_REASONS[reason]))
        case _:
            assert_never(update)
