"""What the keeper makes of words that meet, without a service and without processes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from job_worker.executor.dialling import Way
from job_worker.executor.handler_pool import HandlerPool
from job_worker.executor.heartbeats import Heartbeats
from job_worker.executor.held_lease import HeldLease, LeaseBook, StopReason
from job_worker.executor.keeper import Keeper
from job_worker.executor.outgoing import Outgoing
from job_worker.executor.snapshots import Snapshots
from shared.domain.identity import QueueName
from shared.gen.baton.internal.v1.handler_pipe_pb2 import Setup
from shared.gen.baton.v1.execution_service_pb2 import Lease, LeaseRef, OpenSessionResponse, Welcome
from tests.support.manual_clock import ManualClock

LEASE = Lease(job_id="job", token="1.token", queue="drill", job_type="synthetic")
LEASE.time_left.FromTimedelta(timedelta(minutes=5))
LEASE.grace.FromTimedelta(timedelta(seconds=30))
REF = LeaseRef(job_id=LEASE.job_id, token=LEASE.token)


@dataclass
class DeafProcess:
    """One that goes on whatever it is told."""

    inside: dict[int, HeldLease] = field(default_factory=dict)
    stops: int = 0

    def stop(self, held: HeldLease) -> None:
        self.stops += 1

    def pieces_stored(self, held: HeldLease, piece_number: int) -> None: ...

    def kill(self) -> None: ...


class OneProcess(HandlerPool):
    """Has everything run in one process."""

    def __init__(self) -> None:
        super().__init__(Setup(), processes=1)
        self.process = DeafProcess()

    def run(self, held: HeldLease) -> None:
        held.link = self.process
        self.process.inside[held.number] = held


@asynccontextmanager
async def a_keeper() -> AsyncIterator[tuple[Keeper, OneProcess, Outgoing]]:
    book, outgoing, pool = LeaseBook({QueueName("drill"): 1}), Outgoing(), OneProcess()
    keeper = Keeper(
        book=book,
        outgoing=outgoing,
        pool=pool,
        heartbeats=Heartbeats(book=book, outgoing=outgoing, pool=pool, clock=ManualClock()),
        snapshots=Snapshots(Way("nowhere")),
        versions={"synthetic": (0, 0)},
    )
    yield keeper, pool, outgoing


@pytest.mark.parametrize("first", [StopReason.CANCEL, StopReason.DRAINING])
async def test_a_handler_that_is_stopping_gets_no_new_grace_when_its_lease_is_lost(first: StopReason) -> None:
    async with a_keeper() as (keeper, pool, _):
        keeper.receive(OpenSessionResponse(leases=[LEASE]))
        (held,) = pool.process.inside.values()
        if first is StopReason.CANCEL:
            keeper.receive(OpenSessionResponse(cancels=[REF]))
        else:
            keeper.stop_all()
        assert held.alarm is not None
        due = held.alarm.when()

        keeper.receive(OpenSessionResponse(lost=[REF]))

        assert (held.stop, pool.process.stops, held.alarm.when()) == (StopReason.LOST, 1, due)
        held.set_alarm(None)


async def test_a_new_session_hears_of_a_cancel_that_the_last_one_may_not_have_recorded() -> None:
    async with a_keeper() as (keeper, pool, outgoing):
        keeper.receive(OpenSessionResponse(leases=[LEASE], cancels=[REF]))

        keeper.connected(Welcome(kept=[REF], frame_bytes_max=1 << 20))

        assert list((await outgoing.next_frame()).cancels_seen) == [REF]
        for held in pool.process.inside.values():
            held.set_alarm(None)
