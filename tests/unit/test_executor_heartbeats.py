"""When an executor takes its service for silent."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from job_worker.executor.handler_pool import HandlerPool
from job_worker.executor.heartbeats import Heartbeats
from job_worker.executor.held_lease import HeldLease, LeaseBook
from job_worker.executor.outgoing import Outgoing
from shared.domain.identity import QueueName
from shared.gen.baton.internal.v1.handler_pipe_pb2 import Setup
from shared.gen.baton.v1.execution_service_pb2 import Lease, LeaseRef
from tests.support.manual_clock import ManualClock

INTERVAL = timedelta(seconds=10)
BEAT = timedelta(seconds=1)
"""How often a step comes."""


@dataclass
class Executor:
    """One lease, and how often its heartbeats were sent."""

    clock: ManualClock = field(default_factory=ManualClock)
    book: LeaseBook = field(default_factory=lambda: LeaseBook({QueueName("drill"): 1}))
    outgoing: Outgoing = field(default_factory=Outgoing)
    frames: int = 0

    def __post_init__(self) -> None:
        pool = HandlerPool(Setup(), processes=1)
        self.heartbeats = Heartbeats(book=self.book, outgoing=self.outgoing, pool=pool, clock=self.clock)
        ref = LeaseRef(job_id="job", token="1.token")
        lease = Lease(job_id=ref.job_id, token=ref.token, queue="drill")
        lease.heartbeat_interval.FromTimedelta(INTERVAL)
        self.book.add(HeldLease(1, lease, ref, end_time=0.0))

    async def live(self, duration: timedelta, *, answered: bool = False) -> None:
        """Let time pass until it is over, or the service counts as silent."""
        for _ in range(duration // BEAT):
            await self.heartbeats.step()
            if self.heartbeats.silence.is_set():
                return
            if self.outgoing.has_more():
                number = (await self.outgoing.next_frame()).heartbeat_number
                self.frames += 1
                if answered:
                    self.heartbeats.recorded(number)
            await self.clock.advance(BEAT)

    @property
    def silent(self) -> bool:
        return self.heartbeats.silence.is_set()


async def test_a_service_that_records_heartbeats_is_never_silent() -> None:
    executor = Executor()
    await executor.live(INTERVAL * 100, answered=True)
    assert executor.frames > 100
    assert not executor.silent


async def test_a_service_is_silent_within_two_intervals_of_the_last_heartbeat_that_came_through() -> None:
    executor = Executor()
    await executor.live(BEAT, answered=True)
    last = executor.clock.monotonic()
    await executor.live(INTERVAL * 2)
    assert executor.silent
    assert INTERVAL.total_seconds() < executor.clock.monotonic() - last < 2 * INTERVAL.total_seconds()


async def test_a_heartbeat_that_is_recorded_late_ends_the_silence() -> None:
    executor = Executor()
    await executor.live(INTERVAL * 2)
    assert executor.silent
    executor.heartbeats.recorded(executor.outgoing.heartbeat_number)
    assert not executor.silent
    await executor.live(INTERVAL * 10, answered=True)
    assert not executor.silent


async def test_better_sessions_are_sought_no_more_often_than_heartbeats_are_sent() -> None:
    executor = Executor()
    attempts = 0
    end = INTERVAL.total_seconds() * 100
    while executor.clock.monotonic() < end:
        await executor.live(INTERVAL * 2)
        attempts += executor.silent
        executor.heartbeats.be_patient_again()
    assert 50 < attempts <= executor.frames


async def test_executors_that_began_together_lose_their_patience_at_different_times() -> None:
    times = set()
    for _ in range(50):
        executor = Executor()
        await executor.live(INTERVAL * 2)
        times.add(executor.clock.monotonic())
    assert len(times) > 1


async def test_without_leases_nobody_is_silent() -> None:
    executor = Executor()
    await executor.live(INTERVAL * 2)
    executor.book.remove(LeaseRef(job_id="job", token="1.token"))
    await executor.heartbeats.step()
    assert not executor.silent
