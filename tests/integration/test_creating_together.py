from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
import sqlalchemy as sa

from job_api.operations.caller import Caller
from job_api.operations.create_jobs import CreateJobs
from job_api.operations.creating import Creating
from job_api.operations.job_creation import Creation
from job_api.operations.job_request import CreateJobCommand, JobRequests
from shared.catalog import catalog as catalogs
from shared.domain.errors import BatonError
from shared.domain.identity import Owner
from shared.runtime.ids import new_id
from shared.storage.transactions import Transactions
from tests.support import storage

_STATEMENTS = sa.text("select count(distinct create_time) from jobs")
"""Jobs of one statement share the time of their creation."""


@pytest.fixture
async def transactions(database_url: str) -> AsyncIterator[Transactions]:
    async with storage.opened(database_url) as transactions:
        yield transactions


@pytest.fixture
def create_jobs(transactions: Transactions) -> CreateJobs:
    return CreateJobs(
        transactions,
        JobRequests(catalogs.load(()), input_bytes_max=1_000),
        Creating(new_id=new_id, keys_kept_for=timedelta(hours=24), wake_dispatcher=asyncio.Event()),
    )


def wish(input: bytes = b"{}", key: str | None = None, job_type: str = "synthetic") -> CreateJobCommand:
    return CreateJobCommand(job_type=job_type, input=input, key=key)


async def _statements(transactions: Transactions) -> int:
    async with transactions.begin() as transaction:
        number: int = (await transaction.connection.execute(_STATEMENTS)).scalar_one()
        return number


async def test_calls_of_many_callers_at_once_are_created_by_one_statement_each_as_its_own(
    transactions: Transactions, create_jobs: CreateJobs
) -> None:
    owners = [Owner(f"owner-{number % 7}") for number in range(64)]
    outcomes = await asyncio.gather(
        *(
            create_jobs(Caller(owner), [wish(b'{"items": %d}' % number)])
            for number, owner in enumerate(owners)
        )
    )
    created = [each for (each,) in outcomes if isinstance(each, Creation)]
    assert [each.job.owner for each in created] == owners
    assert await _statements(transactions) == 1
    async with transactions.begin() as transaction:
        stored = await transaction.jobs.get_many([each.job.job_id for each in created])
    assert [stored[each.job.job_id] for each in created] == [each.job for each in created]


async def test_calls_with_faults_of_their_own_leave_the_others_as_they_are(
    transactions: Transactions, create_jobs: CreateJobs
) -> None:
    caller = Caller(Owner("owner"))
    await create_jobs(caller, [wish(key="bound-before")])
    missing = wish(
        b'{"upload_id": "00000000-0000-7000-8000-000000000001"}', "free-again", job_type="document_import"
    )
    calls = [
        [wish(), wish(key="twice-at-once")],
        [missing, wish()],
        [wish(b'{"items": 3}', key="bound-before")],
        [wish(key="twice-at-once")],
        [wish(key="bound-before")],
    ]
    outcomes = await asyncio.gather(*(create_jobs(caller, each) for each in calls))
    assert [[_told(each) for each in call] for call in outcomes] == [
        ["created", "created"],
        ["INVALID_INPUT", "created"],
        ["IDEMPOTENCY_KEY_REUSED"],
        ["replayed"],
        ["replayed"],
    ]
    # One for the key that was bound before, one for those without a fault, one for the call with the fault.
    assert await _statements(transactions) == 3
    text = wish(b'{"text": "a"}', "free-again", job_type="document_import")
    assert [_told(each) for each in await create_jobs(caller, [text])] == ["created"]


def _told(outcome: Creation | BatonError) -> str:
    if isinstance(outcome, BatonError):
        return outcome.reason
    return "replayed" if outcome.replayed else "created"
