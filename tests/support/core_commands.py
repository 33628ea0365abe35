"""The core as the services use it: each command is one call, each in the transactions of its operation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from redis.asyncio import Redis

from job_api.loops.dispatch_sweep import DispatchSweep
from job_api.loops.lease_reaper import LeaseReaper
from job_api.loops.outbox_dispatcher import OutboxDispatcher
from job_api.loops.start_by_sweep import StartBySweep
from job_api.operations.caller import Caller
from job_api.operations.cancel_job import CancelJob
from job_api.operations.create_jobs import CreateJobs, Wish
from job_api.operations.creating import Creating
from job_api.operations.job_creation import Outcome
from job_api.operations.job_request import CreateJobCommand, JobRequests, Overrides
from shared.catalog import catalog
from shared.catalog.catalog import Catalog, JobTypeOverride
from shared.domain.errors import PlatformUnavailable
from shared.domain.identity import IncarnationId, JobId, JobType, Owner, SessionId, StreamName
from shared.domain.leases import (
    PULSE_TOLERANCE,
    ClaimRequest,
    Heartbeat,
    HeartbeatOutcome,
    Lease,
    LeaseRef,
    make_token,
)
from shared.storage.transactions import Transactions
from shared.streams.connection import open_redis
from shared.streams.lease_streams import Appended, Entry, LeaseStreams, WaitingAttempt
from shared.streams.wake_ups import WakeUps
from tests.support import core_reports, redis_keys
from tests.support.core_reports import Answer, Report
from tests.support.storage import Session, opened

SYNTHETIC = JobType("synthetic")
STREAMS = (StreamName("drill:synthetic:1.1:0"), StreamName("drill:synthetic:1.1:2"))
"""Of priorities 0 to 9, and of 40 to 69."""
TIMEOUT_SECONDS, GRACE_SECONDS = 100.0, 10.0
UNIFORM = 0.5
"""The draw that every jitter gets."""
UNCLAIMED_AGE = timedelta(seconds=30)
STEPS_MAX = 50
KEYS_KEPT = timedelta(hours=24)
EVERYBODY = Caller(Owner("backend"), acts_for_others=True, sees_all=True)


class ForgetfulStreams(LeaseStreams):
    """Appends, and says that Redis did not answer: as if the dispatcher died before it could record."""

    async def append(self, attempts: Sequence[WaitingAttempt]) -> Appended:
        await super().append(attempts)
        raise PlatformUnavailable("redis")


@dataclass(slots=True)
class Numbers:
    """Ids and secrets that are the same in every run."""

    last: int = 0

    def new_id(self) -> UUID:
        self.last += 1
        return UUID(int=self.last)

    def new_secret(self) -> str:
        self.last += 1
        return f"secret-{self.last}"


class Core:
    """Both services' part in one job's life, without the services."""

    def __init__(self, transactions: Transactions, redis: Redis, *, prefix: str, jobs: Catalog) -> None:
        self.transactions = transactions
        self.streams = LeaseStreams(redis, prefix=prefix)
        self.numbers = Numbers()
        self._redis, self._prefix, self._catalog = redis, prefix, jobs
        wake_ups, woken = WakeUps(redis, prefix=prefix), asyncio.Event()
        self._create = CreateJobs(
            transactions,
            JobRequests(jobs, input_bytes_max=1_000),
            Creating(new_id=self.numbers.new_id, keys_kept_for=KEYS_KEPT, wake_dispatcher=woken),
        )
        self._cancel = CancelJob(transactions, jobs, wake_ups)
        self._dispatcher = OutboxDispatcher(transactions, self.streams)
        self._forgetful = OutboxDispatcher(transactions, ForgetfulStreams(redis, prefix=prefix))
        self._sweep = DispatchSweep(transactions, self.streams, unclaimed_age=UNCLAIMED_AGE)
        self._reaper = LeaseReaper(
            transactions, wake_ups, jobs, wake_dispatcher=woken, uniform=lambda: UNIFORM
        )
        self._start_by = StartBySweep(transactions, wake_ups)
        self._reports = core_reports.Reports(
            transactions, jobs.retry_policy(jobs.definition(SYNTHETIC)), uniform=UNIFORM
        )
        self._terms = jobs.lease_terms(jobs.definition(SYNTHETIC))

    def restart(self) -> None:
        """Forget what the process remembers, and number anew."""
        self.numbers.last = 0
        self._dispatcher = OutboxDispatcher(self.transactions, self.streams)

    def replica(self, number: int) -> Core:
        """Another process on the same servers, whose ids and secrets are its own."""
        replica = Core(self.transactions, self._redis, prefix=self._prefix, jobs=self._catalog)
        replica.numbers.last = number << 32
        return replica

    async def create(self, wishes: Sequence[Wish]) -> list[Outcome]:
        return await self._create(EVERYBODY, wishes)

    async def cancel(self, job_id: JobId) -> None:
        await self._cancel(EVERYBODY, job_id)

    async def dispatch(self) -> None:
        """Run the dispatcher until it says that there is no more."""
        steps = 1
        while await self._dispatcher.step():
            assert steps < STEPS_MAX, "the dispatcher never says that there is no more"
            steps += 1

    async def tell_demand(self, credits: int) -> None:
        await self.streams.tell_demand("worker", dict.fromkeys(STREAMS, credits))

    async def dispatch_and_crash(self) -> None:
        """Append to the streams, and die before that is recorded."""
        try:
            await self._forgetful.step()
        except PlatformUnavailable:
            return

    async def sweep(self) -> None:
        await self._sweep.step()

    async def reap(self) -> None:
        await self._reaper.step()

    async def sweep_start_by(self) -> None:
        await self._start_by.step()

    async def lengths(self) -> dict[StreamName, int | None]:
        """How many entries each stream has; None where it is missing."""
        return {stream: depth.length for stream, depth in (await self.streams.depths(STREAMS)).items()}

    async def wipe(self) -> None:
        await redis_keys.wipe(self._redis, self._prefix)

    async def lose_stream(self, stream: StreamName) -> None:
        queue, _, rest = stream.partition(":")
        await self._redis.delete(f"{self._prefix}lease:{{{queue}}}:{rest}")

    async def take(self, consumer: str, room: int) -> list[Entry]:
        return await self.streams.take([(stream, room) for stream in STREAMS], consumer)

    async def take_over(self, consumer: str) -> list[Entry]:
        """Take whatever others took and did not settle."""
        return await self.streams.take_over(STREAMS, consumer, idle=timedelta(0), limit=50)

    async def claim(self, wishes: Sequence[tuple[Session, Entry]], *, settled: bool = True) -> list[Lease]:
        """Claim what entries pointed at, as a worker does; it may die before it settles them."""
        requests = [self._request(session, entry) for session, entry in wishes]
        async with self.transactions.begin() as transaction:
            leases = await transaction.states.claim(requests)
        if settled:
            await self.streams.settle([entry for _, entry in wishes])
        return leases

    async def heartbeat(self, leases: Sequence[LeaseRef]) -> HeartbeatOutcome:
        async with self.transactions.begin() as transaction:
            return await transaction.leases.extend([Heartbeat(each, 50) for each in leases])

    async def report(self, reports: Sequence[tuple[LeaseRef, Report]]) -> list[Answer]:
        return await self._reports.make(reports)

    async def see_cancels(self, leases: Sequence[LeaseRef]) -> set[JobId]:
        async with self.transactions.begin() as transaction:
            return await transaction.leases.record_cancels_seen(leases)

    async def hello(
        self, incarnation_id: IncarnationId, named: Sequence[LeaseRef]
    ) -> tuple[Session, Collection[LeaseRef]]:
        """Open a session that names what its executor still holds; return it and what it keeps."""
        session = Session(SessionId(self.numbers.new_id()), incarnation_id)
        return session, await self._reports.hello(session, named)

    async def goodbye(self, session: Session) -> bool:
        return await self._reports.goodbye(session)

    async def pulse(self) -> None:
        async with self.transactions.begin() as transaction:
            await transaction.leases.beat(tolerance=PULSE_TOLERANCE)

    def _request(self, session: Session, entry: Entry) -> ClaimRequest:
        return ClaimRequest(
            job_id=entry.job_id,
            attempt=entry.attempt,
            token=make_token(entry.attempt, self.numbers.new_secret()),
            session_id=session.session_id,
            incarnation_id=session.incarnation_id,
            executor_name=session.executor_name,
            terms=self._terms,
        )


@asynccontextmanager
async def open_core(
    database_url: str, redis_url: str, *, prefix: str, pool_size: int = 2
) -> AsyncIterator[Core]:
    """Connect, and close everything afterwards."""
    jobs = catalog.load(
        job_types={SYNTHETIC: JobTypeOverride(timeout_seconds=TIMEOUT_SECONDS, grace_seconds=GRACE_SECONDS)}
    )
    async with opened(database_url, pool_size=pool_size) as transactions, open_redis(redis_url) as redis:
        yield Core(transactions, redis, prefix=prefix, jobs=jobs)


def wish(
    owner: str,
    *,
    key: str | None = None,
    items: int = 1,
    priority: int = 50,
    run_time: datetime | None = None,
    start_by_time: datetime | None = None,
) -> CreateJobCommand:
    """A job of type `synthetic` for an owner."""
    return CreateJobCommand(
        job_type=SYNTHETIC,
        owner=Owner(owner),
        input=b'{"items": %d}' % items,
        key=key,
        overrides=Overrides(priority=priority),
        run_time=run_time,
        start_by_time=start_by_time,
    )


def unique_by_job(leases: Sequence[LeaseRef]) -> list[LeaseRef]:
    """The first lease of each job."""
    first: dict[JobId, LeaseRef] = {}
    for each in leases:
        first.setdefault(each.job_id, each)
    return list(first.values())


def time_after(now: datetime, seconds: float | None) -> datetime | None:
    return None if seconds is None else now + timedelta(seconds=seconds)
