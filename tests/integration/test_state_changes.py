"""Every event in every state, at the repository and in the database itself."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import sqlalchemy as sa

from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.errors import IllegalTransition
from shared.domain.events import JobEventKind
from shared.domain.identity import JobId, LeaseToken
from shared.domain.jobs import TERMINAL_STATES, TRANSITIONS, JobState
from shared.domain.leases import LeaseRef
from shared.storage.transactions import Transaction, Transactions
from tests.support.storage import (
    FINAL,
    RETRYABLE,
    a_job,
    a_lease,
    a_session,
    claim,
    claim_request,
    end_attempt,
    ending,
    job_in,
    opened,
    the_job,
)

LEGAL = {(source, t.target) for t in TRANSITIONS.values() for source in t.sources} - {
    (state, state) for state in JobState
}
SUCCESS = AttemptEnd(AttemptOutcome.SUCCEEDED)
RETRIED = AttemptEnd(AttemptOutcome.FAILED, RETRYABLE)
FAILED = AttemptEnd(AttemptOutcome.FAILED, FINAL)
STOPPED = AttemptEnd(AttemptOutcome.CANCELLED)


async def everything(transactions: Transactions, job_id: JobId) -> dict[str, list[Any]]:
    """All rows about a job, to see that nothing changed."""
    where = {
        "outbox": "aggregate_id",
        "leases": "job_id",
        "job_events": "job_id",
        "attempts": "job_id",
        "jobs": "job_id",
    }
    found = {}
    async with transactions.begin() as transaction:
        for table, column in where.items():
            statement = sa.text(f"select * from {table} where {column} = :job_id order by 1, 2")
            found[table] = list(await transaction.connection.execute(statement, {"job_id": job_id}))
    return found


async def set_state(transactions: Transactions, job_id: JobId, state: JobState) -> None:
    async with transactions.begin() as transaction:
        statement = sa.text("update jobs set state = :state where job_id = :job_id")
        await transaction.connection.execute(statement, {"state": state, "job_id": job_id})


@pytest.mark.parametrize(("source", "target"), list(itertools.permutations(JobState, 2)))
async def test_the_database_itself_allows_the_tables_transitions_only(
    database_url: str, source: JobState, target: JobState
) -> None:
    async with opened(database_url) as transactions:
        job_id = await job_in(transactions, source)
        if (source, target) in LEGAL:
            await set_state(transactions, job_id, target)
        else:
            with pytest.raises(IllegalTransition):
                await set_state(transactions, job_id, target)
        state = (await the_job(transactions, job_id)).state
        assert state == (target if (source, target) in LEGAL else source)


async def test_the_database_refuses_a_job_that_does_not_begin_queued(database_url: str) -> None:
    async with opened(database_url) as transactions:
        job_id = await a_job(transactions)
        copy = sa.text(
            "insert into jobs (job_id, owner, created_by, job_type, queue, stream, priority, state,"
            " input_schema_version, output_schema_version, credential_mode, create_time, event_count)"
            " select gen_random_uuid(), owner, created_by, job_type, queue, stream, priority, 'RUNNING',"
            " 1, 1, credential_mode, create_time, 1 from jobs where job_id = :job_id"
        )
        with pytest.raises(IllegalTransition):
            async with transactions.begin() as transaction:
                await transaction.connection.execute(copy, {"job_id": job_id})


@pytest.mark.parametrize("state", [state for state in JobState if state is not JobState.QUEUED])
async def test_a_claim_of_a_job_that_does_not_wait_changes_nothing(
    database_url: str, state: JobState
) -> None:
    async with opened(database_url) as transactions:
        job_id = await job_in(transactions, state)
        session = await a_session(transactions)
        before = await everything(transactions, job_id)
        assert await claim(transactions, claim_request(session, job_id, attempt=1)) == []
        assert await claim(transactions, claim_request(session, job_id, attempt=2)) == []
        assert await everything(transactions, job_id) == before


@pytest.mark.parametrize("state", [state for state in JobState if state is not JobState.RUNNING])
@pytest.mark.parametrize("end", [SUCCESS, RETRIED, FAILED, STOPPED], ids=lambda end: str(end.outcome))
async def test_the_end_of_an_attempt_that_does_not_run_changes_nothing(
    database_url: str, state: JobState, end: AttemptEnd
) -> None:
    async with opened(database_url) as transactions:
        running = await a_lease(transactions)
        job_id = await job_in(transactions, state)
        before = await everything(transactions, job_id)
        async with transactions.begin() as transaction:
            template = await ending(transaction, running.ref, end)
            stale = LeaseRef(job_id, LeaseToken("1.guessed"))
            assert await transaction.attempts.lock([stale]) == {}
            forged = type(template)(stale, end, template.decision)
            assert await transaction.states.end_attempts([forged]) == set()
        assert await everything(transactions, job_id) == before


@pytest.mark.parametrize("state", JobState)
async def test_only_waiting_jobs_are_cancelled_at_once(database_url: str, state: JobState) -> None:
    async with opened(database_url) as transactions:
        job_id = await job_in(transactions, state)
        before = await everything(transactions, job_id)
        async with transactions.begin() as transaction:
            cancelled = await transaction.states.cancel_waiting([job_id])
        if state is JobState.QUEUED:
            assert cancelled == {job_id}
            assert (await the_job(transactions, job_id)).state is JobState.CANCELLED
        else:
            assert cancelled == set()
            assert await everything(transactions, job_id) == before


async def test_a_job_between_attempts_is_cancelled_at_once_and_leaves_no_dispatch(database_url: str) -> None:
    async with opened(database_url) as transactions:
        lease = await a_lease(transactions)
        await end_attempt(transactions, lease.ref, RETRIED)
        async with transactions.begin() as transaction:
            assert await transaction.states.cancel_waiting([lease.ref.job_id]) == {lease.ref.job_id}
        rows = await everything(transactions, lease.ref.job_id)
        assert [row.event_type for row in rows["outbox"]] == ["job.cancelled"]


@pytest.mark.parametrize("leased", [False, True])
async def test_what_a_cancelled_job_had_failed_of_before_stays_with_its_attempt(
    database_url: str, leased: bool
) -> None:
    async with opened(database_url) as transactions:
        job_id = (lease := await a_lease(transactions)).ref.job_id
        await end_attempt(transactions, lease.ref, RETRIED)
        assert (await the_job(transactions, job_id)).error == RETRYABLE
        if leased:
            again = await a_lease(transactions, job_id=job_id, attempt=2)
            async with transactions.begin() as transaction:
                await transaction.leases.request_cancels([job_id])
            await end_attempt(transactions, again.ref, RETRIED)
        else:
            async with transactions.begin() as transaction:
                assert await transaction.states.cancel_waiting([job_id])

        job, rows = await the_job(transactions, job_id), await everything(transactions, job_id)
        assert (job.state, job.error) == (JobState.CANCELLED, None)
        assert {row.error_code for row in rows["attempts"]} == {RETRYABLE.code}
        (told,) = [row for row in rows["job_events"] if row.kind == "cancelled"]
        assert (told.error_code, told.error_message, told.error_internal) == (None, None, None)


@pytest.mark.parametrize(
    ("end", "state", "outgoing"),
    [
        (SUCCESS, JobState.SUCCEEDED, "job.succeeded"),
        (FAILED, JobState.FAILED, "job.failed"),
        (STOPPED, JobState.CANCELLED, "job.cancelled"),
        (RETRIED, JobState.RUNNING, "job.dispatch"),
        (AttemptEnd(AttemptOutcome.LOST), JobState.RUNNING, "job.dispatch"),
        (AttemptEnd(AttemptOutcome.GIVEN_BACK), JobState.RUNNING, "job.dispatch"),
    ],
    ids=lambda value: str(getattr(value, "outcome", value)),
)
async def test_an_end_writes_state_attempt_events_and_one_message_together(
    database_url: str, end: AttemptEnd, state: JobState, outgoing: str
) -> None:
    async with opened(database_url) as transactions:
        lease = await a_lease(transactions)
        await end_attempt(transactions, lease.ref, end)
        job = await the_job(transactions, lease.ref.job_id)
        rows = await everything(transactions, lease.ref.job_id)
        assert job.state is state
        assert rows["leases"] == []
        assert [row.event_type for row in rows["outbox"]] == [outgoing]
        assert [(row.attempt, row.outcome) for row in rows["attempts"]] == [(1, end.outcome)]
        assert [row.number for row in rows["job_events"]] == list(range(1, job.last_event_number + 1))
        assert (job.finish_time is not None) == (state in TERMINAL_STATES)
        assert (job.next_attempt_time is not None) == (state is JobState.RUNNING)


async def test_an_end_that_is_rolled_back_leaves_nothing(database_url: str) -> None:
    async with opened(database_url) as transactions:
        lease = await a_lease(transactions)
        before = await everything(transactions, lease.ref.job_id)

        async def fail_after(transaction: Transaction) -> None:
            await transaction.states.end_attempts([await ending(transaction, lease.ref, SUCCESS)])
            raise LookupError("a projector's bug")

        with pytest.raises(LookupError):
            async with transactions.begin() as transaction:
                await fail_after(transaction)
        assert await everything(transactions, lease.ref.job_id) == before


async def test_the_events_of_a_long_life_are_numbered_without_gaps(database_url: str) -> None:
    async with opened(database_url) as transactions:
        session = await a_session(transactions)
        lease = await a_lease(transactions, session=session)
        job_id = lease.ref.job_id
        await end_attempt(transactions, lease.ref, RETRIED)
        lease = await a_lease(transactions, session=session, job_id=job_id, attempt=2)
        await end_attempt(transactions, lease.ref, AttemptEnd(AttemptOutcome.GIVEN_BACK))
        lease = await a_lease(transactions, session=session, job_id=job_id, attempt=3)
        async with transactions.begin() as transaction:
            await transaction.leases.request_cancels([job_id])
            await transaction.leases.request_cancels([job_id])
            assert await transaction.leases.record_cancels_seen([lease.ref]) == {job_id}
            assert await transaction.leases.record_cancels_seen([lease.ref]) == set()
        await end_attempt(transactions, lease.ref, STOPPED)
        async with transactions.begin() as transaction:
            events = await transaction.events.after({job_id: 0}, limit=100)
        kinds = JobEventKind
        assert [event.number for event in events] == list(range(1, 13))
        assert [event.kind for event in events] == [
            kinds.CREATED,
            kinds.STARTED,
            kinds.ATTEMPT_ENDED,
            kinds.RETRY_SCHEDULED,
            kinds.STARTED,
            kinds.ATTEMPT_ENDED,
            kinds.RETRY_SCHEDULED,
            kinds.STARTED,
            kinds.CANCEL_REQUESTED,
            kinds.CANCEL_SEEN,
            kinds.ATTEMPT_ENDED,
            kinds.CANCELLED,
        ]
        assert events[-1].state is JobState.CANCELLED
