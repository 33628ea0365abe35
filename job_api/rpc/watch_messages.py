"""From what a watch yields to messages."""

from __future__ import annotations

from typing import assert_never

from job_api.operations.job_watching import Progress, StoredPiece
from job_api.operations.subscriptions import EndReason, KeepAlive
from job_api.operations.watch_job import Watched
from job_api.rpc.messages import event_message
from shared.domain.events import JobEvent
from shared.gen.baton.v1 import job_control_pb2 as pb

END_REASONS = {
    EndReason.FINISHED: pb.WATCH_END_REASON_FINISHED,
    EndReason.SLOW: pb.WATCH_END_REASON_SLOW,
    EndReason.DRAINING: pb.WATCH_END_REASON_DRAINING,
}


def watch_message(watched: Watched, *, inside: bool) -> pb.WatchJobResponse:
    """Render an update with the cursor to resume from behind it."""
    message = pb.WatchJobResponse(cursor=watched.cursor)
    match watched.update:
        case JobEvent() as event:
            message.event.CopyFrom(event_message(event, inside=inside))
        case StoredPiece() as piece:
            message.piece.CopyFrom(
                pb.WatchedPiece(attempt=piece.attempt, number=piece.number, text=piece.text)
            )
        case Progress() as told:
            message.progress.CopyFrom(
                pb.JobProgress(attempt=told.attempt, progress=told.progress, progress_message=told.message)
            )
        case KeepAlive():
            message.keep_alive.SetInParent()
        case EndReason() as reason:
            message.ended.reason = END_REASONS[reason]
        case _:
            assert_never(watched.update)
    return message
