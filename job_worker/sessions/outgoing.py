"""What waits for an executor; whatever has gathered goes in one frame."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import timedelta

from job_worker.operations.claim_leases import GrantedLease
from job_worker.operations.reports import ReportAnswer
from job_worker.sessions.frames import ServiceFrame
from shared.domain.leases import LeaseRef

_LEASE_BYTES = 4_096
"""About what a lease takes at most besides its input: names, the last attempt's error, the trace."""
_ANSWER_BYTES = 1_500
"""About what an answer takes at most."""
ANSWERS_MAX = 10_000
"""An executor that does not read its answers is not listened to any more once so many wait."""
UNSENT_LEASES_MAX = 256
"""An executor that does not read gets no more leases once so many wait."""


class Outgoing:
    """Filled by what is done for all sessions together, emptied by one session's writer.

    Its size is bounded: leases by credits and `UNSENT_LEASES_MAX`, answers by what was reported, everything
    else by the leases that the executor holds.
    """

    def __init__(self, *, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._changed = asyncio.Event()
        self._emptied = asyncio.Event()
        self._emptied.set()
        self._closed = False
        self._leases = deque[GrantedLease]()
        self._answers = deque[ReportAnswer]()
        self._heartbeats_recorded = 0
        # A lease stands here once, however often there is the same to say about it.
        self._lost = dict[LeaseRef, None]()
        self._cancels = dict[LeaseRef, None]()
        self._pieces_recorded = dict[LeaseRef, int]()
        self._drain: timedelta | None = None

    @property
    def lease_room(self) -> int:
        """How many leases may be added."""
        return 0 if self._closed else max(0, UNSENT_LEASES_MAX - len(self._leases))

    def add_leases(self, leases: Iterable[GrantedLease]) -> None:
        self._leases.extend(leases)
        self._changed.set()

    def add_answers(self, answers: Iterable[ReportAnswer]) -> None:
        self._answers.extend(answers)
        if len(self._answers) > ANSWERS_MAX:
            self._emptied.clear()
        self._changed.set()

    def add_heartbeats_recorded(self, number: int) -> None:
        self._heartbeats_recorded = max(self._heartbeats_recorded, number)
        self._changed.set()

    def add_lost(self, leases: Iterable[LeaseRef]) -> None:
        self._lost |= dict.fromkeys(leases)
        self._changed.set()

    def add_cancels(self, leases: Iterable[LeaseRef]) -> None:
        self._cancels |= dict.fromkeys(leases)
        self._changed.set()

    def add_pieces_recorded(self, numbers: Mapping[LeaseRef, int]) -> None:
        self._pieces_recorded |= numbers
        self._changed.set()

    def ask_to_drain(self, time_left: timedelta) -> None:
        self._drain = time_left
        self._changed.set()

    def close(self) -> None:
        """Take no more leases, and end `frames` once all that waits is sent."""
        self._closed = True
        self._changed.set()

    def unsent_leases(self) -> list[LeaseRef]:
        """Take back the leases that no frame has carried."""
        unsent = [each.lease.ref for each in self._leases]
        self._leases.clear()
        return unsent

    async def room_for_answers(self) -> None:
        """Wait until the executor has read most of its answers."""
        await self._emptied.wait()

    async def frames(self) -> AsyncIterator[ServiceFrame]:
        """Yield frames as soon as there is something to say, until `close` and nothing is left."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            while (frame := self._next()) is not None:
                yield frame
            if self._closed:
                return

    def _next(self) -> ServiceFrame | None:
        gathered = (self._leases, self._answers, self._lost, self._cancels, self._pieces_recorded)
        if not any(gathered) and not self._heartbeats_recorded and self._drain is None:
            return None
        frame = ServiceFrame(
            leases=list(self._fitting_leases()),
            heartbeats_recorded=self._heartbeats_recorded,
            lost=list(self._lost),
            cancels=list(self._cancels),
            answers=list(self._fitting_answers()),
            pieces_recorded=self._pieces_recorded,
            drain=self._drain,
        )
        self._heartbeats_recorded, self._drain, self._pieces_recorded = 0, None, {}
        self._lost.clear()
        self._cancels.clear()
        if len(self._answers) <= ANSWERS_MAX // 2:
            self._emptied.set()
        return frame

    def _fitting_leases(self) -> Iterable[GrantedLease]:
        """Yield the next leases that fill at most half a frame; at least one, if there is one."""
        left = self._frame_bytes_max // 2
        while self._leases and left > 0:
            left -= _LEASE_BYTES + len(self._leases[0].lease.input)
            yield self._leases.popleft()

    def _fitting_answers(self) -> Iterable[ReportAnswer]:
        """Yield the next answers, as many as fill at most a quarter of a frame."""
        for _ in range(min(len(self._answers), self._frame_bytes_max // 4 // _ANSWER_BYTES)):
            yield self._answers.popleft()
