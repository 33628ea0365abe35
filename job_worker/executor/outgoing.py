"""What waits to be sent to the service, gathered so that one frame carries all of it."""

from __future__ import annotations

import asyncio
from collections import Counter, deque

from shared.gen.baton.v1.execution_service_pb2 import (
    Goodbye,
    Heartbeat,
    LeaseRef,
    OpenSessionRequest,
    OutputPiece,
    Report,
)

FRAME_BYTES_MAX = 4 * 1024 * 1024
_FRAME_SHARE = 0.9
"""The rest is for what is not weighed."""
_HEARTBEAT_BYTES = 1_000
_REPORT_BYTES = 400
_PIECE_BYTES = 150
"""About what each takes besides its payload."""


class Outgoing:
    """Filled by the keeper and emptied by a session's writer. Bounded by the leases that are held."""

    def __init__(self) -> None:
        self._frame_bytes_max = FRAME_BYTES_MAX
        self._wake = asyncio.Event()
        self._heartbeat_number = 0
        self._reset()

    def _reset(self) -> None:
        self._credits: Counter[str] = Counter()
        self._heartbeats: dict[tuple[str, str], Heartbeat] = {}
        self._cancels_seen: list[LeaseRef] = []
        self._pieces: deque[OutputPiece] = deque()
        self._reports: deque[Report] = deque()
        self._goodbye = False

    def begin(self, *, frame_bytes_max: int) -> None:
        """Forget everything: a new session is told anew."""
        self._frame_bytes_max = frame_bytes_max or FRAME_BYTES_MAX
        self._reset()

    @property
    def heartbeat_number(self) -> int:
        """The number of the last frame with heartbeats."""
        return self._heartbeat_number

    def credit(self, queue: str, count: int = 1) -> None:
        if count > 0:
            self._credits[queue] += count
            self._wake.set()

    def heartbeat(self, heartbeat: Heartbeat) -> None:
        """Send it, in the place of one of the same lease that has not been sent yet."""
        self._heartbeats[heartbeat.lease.job_id, heartbeat.lease.token] = heartbeat
        self._wake.set()

    def cancel_seen(self, ref: LeaseRef) -> None:
        self._cancels_seen.append(ref)
        self._wake.set()

    def piece(self, piece: OutputPiece) -> None:
        self._pieces.append(piece)
        self._wake.set()

    def report(self, report: Report) -> None:
        self._reports.append(report)
        self._wake.set()

    def goodbye(self) -> None:
        """Send the last frame once everything else is sent."""
        self._goodbye = True
        self._wake.set()

    async def next_frame(self) -> OpenSessionRequest:
        """Wait until there is something to send, and return as much of it as one frame takes."""
        while not self.has_more():
            self._wake.clear()
            await self._wake.wait()
        return self._taken()

    def has_more(self) -> bool:
        """Whether there is something to send."""
        return bool(
            self._credits
            or self._heartbeats
            or self._cancels_seen
            or self._pieces
            or self._reports
            or self._goodbye
        )

    def _taken(self) -> OpenSessionRequest:
        frame = OpenSessionRequest()
        room = int(self._frame_bytes_max * _FRAME_SHARE)
        for queue, count in self._credits.items():
            frame.credits.add(queue=queue, count=count)
        self._credits.clear()
        frame.cancels_seen.extend(self._cancels_seen)
        self._cancels_seen.clear()
        room = self._take_heartbeats(frame, room)
        room = self._take_pieces(frame, room)
        # A report names its pieces, so it comes after all of them.
        if not self._pieces:
            self._take_reports(frame, room)
        if self._goodbye and not (self._heartbeats or self._pieces or self._reports):
            frame.goodbye.CopyFrom(Goodbye())
            self._goodbye = False
        return frame

    def _take_heartbeats(self, frame: OpenSessionRequest, room: int) -> int:
        while self._heartbeats and room >= _HEARTBEAT_BYTES:
            frame.heartbeats.append(self._heartbeats.pop(next(iter(self._heartbeats))))
            room -= _HEARTBEAT_BYTES
        if frame.heartbeats:
            self._heartbeat_number += 1
            frame.heartbeat_number = self._heartbeat_number
        return room

    def _take_pieces(self, frame: OpenSessionRequest, room: int) -> int:
        while self._pieces:
            size = len(self._pieces[0].text.encode()) + _PIECE_BYTES
            if size > room and frame.ByteSize():
                break
            frame.pieces.append(self._pieces.popleft())
            room -= size
        return room

    def _take_reports(self, frame: OpenSessionRequest, room: int) -> None:
        while self._reports:
            size = _bytes_of(self._reports[0])
            if size > room and frame.ByteSize():
                break
            frame.reports.append(self._reports.popleft())
            room -= size


def _bytes_of(report: Report) -> int:
    return _REPORT_BYTES + report.ByteSize()
