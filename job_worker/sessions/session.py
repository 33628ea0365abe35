"""One executor's session: its credits, and what is to be said to it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from itertools import product

from job_worker.operations.claim_leases import Claimant, GrantedLease
from job_worker.operations.open_session import Capability, Hello, OpenedSession
from job_worker.operations.reports import ReportAnswer
from job_worker.sessions.outgoing import Outgoing
from shared.catalog.catalog import Catalog
from shared.domain.identity import QueueName, StreamName
from shared.domain.queues import BAND_STARTS, StreamKey


class SessionEnd(StrEnum):
    """Why a session ends by the service's will."""

    REPLACED = "replaced"
    DRAINED = "drained"


@dataclass(frozen=True, slots=True)
class ServedStream:
    """A lease stream whose jobs an executor can do."""

    name: StreamName
    queue: QueueName
    band: int


class Session:
    """In memory, for as long as its stream is open; all that must outlive it is in Postgres.

    A credit is taken when an entry is looked for, and given back if none was found or its claim was refused,
    so an executor never gets more leases than it has credits for.
    """

    def __init__(
        self, hello: Hello, opened: OpenedSession, catalog: Catalog, *, frame_bytes_max: int
    ) -> None:
        self.claimant = Claimant(opened.session_id, hello.incarnation_id, hello.executor_name)
        self.opened = opened
        self.streams = served_streams(hello.capabilities, catalog)
        self.outgoing = Outgoing(frame_bytes_max=frame_bytes_max)
        self.end_reason: SessionEnd | None = None
        self.goodbye = False
        self.draining = False
        self.departing = False
        self._reports_open = 0
        self._all_answered = asyncio.Event()
        self._all_answered.set()
        self._credits = Counter[QueueName]()
        self._reserved = 0

    def add_credits(self, queue: QueueName, count: int) -> None:
        self._credits[queue] += count

    def open_credits(self, queue: QueueName) -> int:
        """How many leases of a queue the session may be given now."""
        if self.goodbye or self.draining or self.departing or self.end_reason is not None:
            return 0
        return min(self._credits[queue], self.outgoing.lease_room - self._reserved)

    def take_credit(self, queue: QueueName) -> None:
        """Reserve a credit for a lease that may come of an entry."""
        self._credits[queue] -= 1
        self._reserved += 1

    def return_credit(self, queue: QueueName) -> None:
        """Return a reserved credit, as there is no lease for it."""
        self._credits[queue] += 1
        self._reserved -= 1

    def grant(self, leases: Sequence[GrantedLease]) -> None:
        """Hand over leases, each in the place of a reserved credit."""
        self._reserved -= len(leases)
        self.outgoing.add_leases(leases)

    def expect_answers(self, count: int) -> None:
        """Count reports that are to be answered."""
        self._reports_open += count
        if self._reports_open:
            self._all_answered.clear()

    def answer(self, answer: ReportAnswer) -> None:
        """Hand over the answer to a report that was counted."""
        self._reports_open -= 1
        if not self._reports_open:
            self._all_answered.set()
        self.outgoing.add_answers([answer])

    @property
    def reports_open(self) -> int:
        """Reports that are not answered yet."""
        return self._reports_open

    async def all_answered(self) -> None:
        """Wait until no report waits for its answer."""
        await self._all_answered.wait()

    def drain(self, time_left: timedelta) -> None:
        """Give no more leases, and ask the executor to go elsewhere."""
        self.draining = True
        self.outgoing.ask_to_drain(time_left)

    def end(self, reason: SessionEnd) -> None:
        """End the stream once all that waits is sent."""
        self.end_reason = self.end_reason or reason
        self.outgoing.close()


def served_streams(capabilities: Sequence[Capability], catalog: Catalog) -> Sequence[ServedStream]:
    """Name the streams that an executor can serve, urgent bands first; unknown job types have none."""
    known = [each for each in capabilities if each.job_type in catalog.definitions]
    return [
        ServedStream(key.name, key.queue, key.band)
        for band in range(len(BAND_STARTS))
        for each in known
        for inputs, outputs in product(
            sorted(each.input_schema_versions), sorted(each.output_schema_versions)
        )
        for key in [StreamKey(catalog.definitions[each.job_type].queue, each.job_type, inputs, outputs, band)]
    ]
