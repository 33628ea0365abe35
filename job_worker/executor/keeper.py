"""Keeps the leases of an executor: takes them, has them run, stops them in time, and reports how they ended.

The service is authoritative. What the keeper holds is a belief, and each message about a lease carries its
token, so a wrong belief changes nothing there. The keeper promises that each lease that it took ends in
exactly one report, sent again until it is answered, unless the service says that the lease is lost. If this
process dies, all of it is gone: heartbeats stop, and the service gives the jobs to others. If a handler
process dies or is killed, the keeper gives back what was inside. If the service is away, handlers go on and
reports wait, bounded by the room (see `LeaseBook`).

All of it runs on one event loop, in methods that never wait; no handler does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog

from job_worker.executor import report_words
from job_worker.executor.handler_link import HandlerLink, Limits
from job_worker.executor.handler_pool import HandlerPool
from job_worker.executor.heartbeats import Heartbeats
from job_worker.executor.held_lease import HeldLease, LeaseBook, StopReason
from job_worker.executor.outgoing import Outgoing
from job_worker.executor.snapshots import Snapshots, is_needed
from shared.domain.errors import LeaseLost
from shared.gen.baton.internal.v1.handler_pipe_pb2 import HandlerFrame, LoopLag, WorkEnd
from shared.gen.baton.v1.execution_service_pb2 import (
    GIVE_BACK_REASON_DRAINING,
    GIVE_BACK_REASON_REFUSED,
    REPORT_OUTCOME_REFUSED,
    Lease,
    LeaseRef,
    OpenSessionResponse,
    OutputPiece,
    PiecesRecorded,
    Report,
    ReportAnswer,
    Welcome,
)

log = structlog.get_logger(__name__)

_GRACE_SHARE = 0.8
"""The handler gets so much of the grace; the rest is for the report to come before the service's own end."""


class Keeper:
    """All that happens to leases; the session and the handler processes call it."""

    def __init__(
        self,
        *,
        book: LeaseBook,
        outgoing: Outgoing,
        pool: HandlerPool,
        heartbeats: Heartbeats,
        snapshots: Snapshots,
        versions: Mapping[str, tuple[int, int]],
    ) -> None:
        """Begin with no leases.

        Args:
            versions: Of the input and output schema of each announced job type.
        """
        self._book = book
        self._outgoing = outgoing
        self._pool = pool
        self._heartbeats = heartbeats
        self._snapshots = snapshots
        self._versions = versions
        self._connected = False
        self._draining = False
        self._loop = asyncio.get_running_loop()

    # What the session says

    def connected(self, welcome: Welcome) -> None:
        """Begin a session: tell it all that the last one may not have taken in."""
        self._connected = True
        self._pool.limits = Limits.told(welcome)
        for ref in welcome.lost:
            self._lose(ref)
        self._outgoing.begin(frame_bytes_max=welcome.frame_bytes_max)
        for held in self._book:
            if held.cancelled:
                self._outgoing.cancel_seen(held.ref)
            for piece in held.pieces:
                self._outgoing.piece(piece)
            if held.report is not None:
                self._outgoing.report(held.report)
        self._heartbeats.connected()
        self._book.forget_credits()
        self._give_credits()

    def disconnected(self) -> None:
        """Go on without a session."""
        self._connected = False
        self._heartbeats.disconnected()

    def receive(self, response: OpenSessionResponse) -> None:
        """Do what a frame of the service says."""
        for answer in response.answers:
            self._answered(answer)
        for recorded in response.pieces_recorded:
            self._pieces_recorded(recorded)
        for ref in response.lost:
            self._lose(ref)
        for lease in response.leases:
            self._take(lease)
        for ref in response.cancels:
            self._cancel(ref)
        if response.heartbeats_recorded:
            self._heartbeats.recorded(response.heartbeats_recorded)

    # What the handler processes say

    def heard(self, link: HandlerLink, frame: HandlerFrame) -> None:
        """Take in what a handler process says."""
        for progress in frame.progress:
            if held := self._reporting(link, progress.number):
                held.progress = (progress.percent, progress.message)
                self._heartbeats.progressed(held)
        for piece in frame.pieces:
            if held := self._reporting(link, piece.number):
                sent = OutputPiece(lease=held.ref, number=piece.piece_number, text=piece.text)
                held.pieces.append(sent)
                self._outgoing.piece(sent)
        for end in frame.ends:
            self._ended(link, end)
        if frame.HasField("loop_lag"):
            _log_lag(frame.loop_lag)

    def died(self, link: HandlerLink, exit_code: int) -> None:
        """Report all attempts that a process took with it."""
        inside = list(link.inside.values())
        expected = link.killed or (link.alone and not inside)
        write = log.info if expected else log.warning
        write(
            "handler_process.ended",
            process_id=link.process_id,
            exit=exit_code,
            killed=link.killed,
            attempts=len(inside),
        )
        for held in inside:
            link.left(held)
            self._report(held, report_words.of_death(held, killed=link.killed, alone=len(inside) == 1))

    def not_started(self, held: HeldLease) -> None:
        """Give back a lease for which no process could be started."""
        self._report(held, report_words.given_back(held, GIVE_BACK_REASON_REFUSED))

    # What the executor's own end says

    def drain(self) -> None:
        """Take no more leases; those that come all the same are given back."""
        self._draining = True

    def stop_all(self) -> None:
        """Tell all handlers to stop, so that their leases can be given back."""
        for held in self._book.unreported():
            self._stop(held, StopReason.DRAINING)

    def kill_all(self) -> None:
        """Kill whatever still runs, and give its lease back."""
        for held in self._book.unreported():
            if held.link is not None:
                held.link.kill()

    # The life of a lease

    def _take(self, lease: Lease) -> None:
        if self._book.get(lease) is not None:
            return
        end_time = self._loop.time() + lease.time_left.ToTimedelta().total_seconds()
        ref = LeaseRef(job_id=lease.job_id, token=lease.token)
        held = HeldLease(self._book.next_number(), lease, ref, end_time)
        self._book.add(held)
        if self._draining:
            self._report(held, report_words.given_back(held, GIVE_BACK_REASON_DRAINING))
            return
        if self._versions.get(lease.job_type) != (lease.input_schema_version, lease.output_schema_version):
            log.warning("lease.refused", job_type=lease.job_type, job_id=lease.job_id)
            self._report(held, report_words.given_back(held, GIVE_BACK_REASON_REFUSED))
            return
        self._outgoing.heartbeat(held.heartbeat())
        held.set_alarm(self._loop.call_at(end_time, self._stop, held, StopReason.TIMEOUT))
        if is_needed(lease):
            held.fetching = asyncio.create_task(self._fetch(held))
        else:
            self._pool.run(held)

    async def _fetch(self, held: HeldLease) -> None:
        try:
            await self._snapshots.fill(held)
        except LeaseLost:
            self._lose(held.ref)
        else:
            self._pool.run(held)

    def _cancel(self, ref: LeaseRef) -> None:
        self._outgoing.cancel_seen(ref)
        if (held := self._book.get(ref)) is not None:
            held.cancelled = True
            self._stop(held, StopReason.CANCEL)

    def _stop(self, held: HeldLease, reason: StopReason) -> None:
        """Tell a handler to stop; the first reason counts, but for the loss of the lease.

        One that was told already has the rest of its grace, and no new one.
        """
        if held.report is not None:
            return
        stopping = held.stop is not None
        if reason is StopReason.LOST or not stopping:
            held.stop = reason
        if stopping:
            return
        if held.link is None:
            if held.fetching is not None:
                held.fetching.cancel()
            self._report(held, report_words.not_begun(held))
            return
        held.link.stop(held)
        grace = held.grace_seconds * _GRACE_SHARE
        held.set_alarm(self._loop.call_later(grace, self._kill, held))

    def _kill(self, held: HeldLease) -> None:
        if held.link is not None:
            reason = held.stop.name.lower() if held.stop else ""
            log.warning(
                "handler_process.killed",
                job_type=held.lease.job_type,
                job_id=held.lease.job_id,
                stop_ignored=reason,
                attempts=len(held.link.inside),
            )
            held.link.kill()

    def _ended(self, link: HandlerLink, end: WorkEnd) -> None:
        held = link.inside.get(end.number)
        if held is None:
            return
        link.left(held)
        self._report(held, report_words.of_end(held, end))
        if link.alone:
            self._pool.go_on_alone(link)

    def _report(self, held: HeldLease, report: Report) -> None:
        """Send how it ended; nothing if the lease is lost."""
        held.set_alarm(None)
        if held.report is None and held in self._book:
            self._book.end(held, report)
            self._outgoing.report(report)
            self._give_credits()

    def _answered(self, answer: ReportAnswer) -> None:
        if answer.outcome == REPORT_OUTCOME_REFUSED:
            log.warning("report.refused", job_id=answer.lease.job_id, reason=answer.reason)
        self._release(answer.lease)

    def _lose(self, ref: LeaseRef) -> None:
        held = self._release(ref)
        if held is not None and held.report is None:
            log.warning("lease.lost", job_type=held.lease.job_type, job_id=ref.job_id)
            self._stop(held, StopReason.LOST)

    def _release(self, ref: LeaseRef) -> HeldLease | None:
        """Take a lease out of the book, which may make room for another one."""
        held = self._book.remove(ref)
        self._give_credits()
        return held

    def _give_credits(self) -> None:
        if self._connected and not self._draining:
            for queue, count in self._book.new_credits().items():
                self._outgoing.credit(queue, count)

    def _pieces_recorded(self, recorded: PiecesRecorded) -> None:
        held = self._book.get(recorded.lease)
        if held is None:
            return
        while held.pieces and held.pieces[0].number <= recorded.number:
            held.pieces.popleft()
        if held.link is not None:
            held.link.pieces_stored(held, recorded.number)

    def _reporting(self, link: HandlerLink, number: int) -> HeldLease | None:
        """Return the attempt inside if its lease is held, so that its words count."""
        held = link.inside.get(number)
        return held if held is not None and held in self._book else None


def _log_lag(lag: LoopLag) -> None:
    lag_s = round(lag.lag.ToTimedelta().total_seconds(), 3)
    log.warning("handler.loop_blocked", job_type=lag.job_type, job_id=lag.job_id, lag_s=lag_s)
