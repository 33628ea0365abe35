"""Jobs, sessions and leases on a real database, for tests that begin in the middle of a job's life."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from shared.domain.attempts import AttemptEnd, AttemptOutcome, Finish, decide
from shared.domain.identity import IncarnationId, JobId, JobType, Owner, QueueName, SessionId, StreamName
from shared.domain.jobs import Job, JobChange, JobError, JobState
from shared.domain.leases import ClaimRequest, Lease, LeaseRef, LeaseTerms, TypeLimits, make_token
from shared.domain.retries import Backoff, RetryPolicy
from shared.runtime.ids import new_id, new_secret
from shared.storage.attempts import HeldAttempt
from shared.storage.creation import NewJob
from shared.storage.database import open_engine
from shared.storage.state_changes import Ending
from shared.storage.transactions import Transaction, Transactions

STREAM = StreamName("drill:synthetic:1.1:2")
TERMS = LeaseTerms(duration=timedelta(seconds=30), timeout=timedelta(seconds=60), grace=timedelta(seconds=3))
POLICY = RetryPolicy(max_retries=2, backoff=Backoff(base=timedelta(seconds=1)))
RETRYABLE = JobError("PROVIDER_UNAVAILABLE", "the provider did not answer")
FINAL = JobError("INPUT_BROKEN", "the file can't be read")


@dataclass(frozen=True, slots=True)
class Session:
    """An executor's current session."""

    session_id: SessionId
    incarnation_id: IncarnationId
    executor_name: str = "executor"


@asynccontextmanager
async def opened(database_url: str, *, pool_size: int = 5) -> AsyncIterator[Transactions]:
    """Transactions on a pool that is closed afterwards."""
    async with open_engine(database_url, pool_size=pool_size) as engine:
        yield Transactions(engine)


def new_job(**changes: Any) -> NewJob:
    """A job of type `synthetic` that does nothing, with what is named set differently."""
    fields: dict[str, Any] = {
        "job_id": JobId(new_id()),
        "owner": Owner("owner"),
        "created_by": "owner",
        "job_type": JobType("synthetic"),
        "queue": QueueName("drill"),
        "stream": STREAM,
        "priority": 50,
        "input": b"{}",
        "input_schema_version": 1,
        "output_schema_version": 1,
        "credential_mode": "platform_key",
        "labels": {},
    }
    return NewJob(**(fields | changes))


async def a_job(transactions: Transactions, **changes: Any) -> JobId:
    """Create a QUEUED job."""
    job = new_job(**changes)
    async with transactions.begin() as transaction:
        await transaction.creation.create_jobs([job])
    return job.job_id


async def a_session(transactions: Transactions, *, incarnation_id: IncarnationId | None = None) -> Session:
    """Open a session, which is the only one of its incarnation."""
    session = Session(SessionId(new_id()), incarnation_id or IncarnationId(new_id()))
    async with transactions.begin() as transaction:
        await transaction.sessions.replace(
            session.incarnation_id,
            session.session_id,
            executor_name=session.executor_name,
            runtime="test",
            job_types=[JobType("synthetic")],
        )
    return session


def claim_request(
    session: Session,
    job_id: JobId,
    *,
    attempt: int = 1,
    terms: LeaseTerms = TERMS,
    limits: TypeLimits | None = None,
) -> ClaimRequest:
    """A session's wish for an attempt, with a new token."""
    return ClaimRequest(
        job_id=job_id,
        attempt=attempt,
        token=make_token(attempt, new_secret()),
        session_id=session.session_id,
        incarnation_id=session.incarnation_id,
        executor_name=session.executor_name,
        terms=terms,
        limits=limits,
    )


async def claim(transactions: Transactions, *requests: ClaimRequest) -> list[Lease]:
    """Claim in a transaction of its own."""
    async with transactions.begin() as transaction:
        return await transaction.states.claim(requests)


async def a_lease(
    transactions: Transactions,
    *,
    session: Session | None = None,
    job_id: JobId | None = None,
    attempt: int = 1,
    terms: LeaseTerms = TERMS,
) -> Lease:
    """Grant a lease of a job, of a new one if none is given."""
    session = session or await a_session(transactions)
    job_id = job_id or await a_job(transactions)
    (lease,) = await claim(transactions, claim_request(session, job_id, attempt=attempt, terms=terms))
    return lease


async def ending(transaction: Transaction, lease: LeaseRef, end: AttemptEnd) -> Ending:
    """Lock a held attempt and decide its end by `POLICY`, without a wait before the next one."""
    return ending_of((await transaction.attempts.lock([lease]))[lease], end)


def ending_of(held: HeldAttempt, end: AttemptEnd) -> Ending:
    """Decide as `ending` does, of an attempt that is locked."""
    lease = held.lease
    if end.outcome is AttemptOutcome.SUCCEEDED:
        decision = Finish(JobChange.SUCCEEDED, None, held.standing)
        return Ending(lease, end, decision, output=b"{}", output_hash="00")
    return Ending(lease, end, decide(end, held.standing, POLICY, uniform=0.0))


async def end_attempt(transactions: Transactions, lease: LeaseRef, end: AttemptEnd) -> None:
    """End a held attempt in a transaction of its own."""
    async with transactions.begin() as transaction:
        assert await transaction.states.end_attempts([await ending(transaction, lease, end)])


async def job_in(transactions: Transactions, state: JobState) -> JobId:
    """Create a job and bring it into a state; RUNNING means leased."""
    if state is JobState.QUEUED:
        return await a_job(transactions)
    lease = await a_lease(transactions)
    ends = {
        JobState.SUCCEEDED: AttemptEnd(AttemptOutcome.SUCCEEDED),
        JobState.FAILED: AttemptEnd(AttemptOutcome.FAILED, FINAL),
        JobState.CANCELLED: AttemptEnd(AttemptOutcome.CANCELLED),
    }
    if state in ends:
        await end_attempt(transactions, lease.ref, ends[state])
    return lease.ref.job_id


async def the_job(transactions: Transactions, job_id: JobId) -> Job:
    """Read a job that exists."""
    async with transactions.begin() as transaction:
        job = await transaction.jobs.get(job_id)
    assert job is not None
    return job
