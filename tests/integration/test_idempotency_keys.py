"""Idempotency keys at the edges of their lives."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.identity import JobId, JobType, Owner
from shared.runtime.ids import new_id
from shared.storage.database import Connection
from shared.storage.idempotency import IdempotencyKey, IdempotencyKeys, KeyClaim
from shared.storage.transactions import Transactions
from tests.support.database_time import DatabaseTime
from tests.support.storage import a_job, a_lease, end_attempt

KEPT = timedelta(hours=24)


class Interrupted(Connection):
    """Lets retention remove expired keys after each statement."""

    def __init__(self, connection: Connection, transactions: Transactions) -> None:
        self._inner, self._transactions = connection, transactions

    async def execute(
        self, statement: sa.Executable, parameters: Mapping[str, Any] | None = None
    ) -> sa.CursorResult[Any]:
        result = await self._inner.execute(statement, parameters)
        async with self._transactions.begin() as transaction:
            await transaction.retention.remove_expired_keys(limit=10)
        return result


def a_key(name: str) -> IdempotencyKey:
    return IdempotencyKey(Owner("owner"), JobType("synthetic"), name)


async def test_a_key_that_retention_removes_in_the_midst_of_a_claim_is_bound_anew(
    transactions: Transactions, database_time: DatabaseTime
) -> None:
    key, old = a_key("an-old-key"), await a_job(transactions)
    async with transactions.begin() as transaction:
        await transaction.idempotency.claim([KeyClaim(key, b"f", old)], kept_for=KEPT)
    lease = await a_lease(transactions, job_id=old)
    await end_attempt(transactions, lease.ref, AttemptEnd(AttemptOutcome.SUCCEEDED))
    await database_time.jump(KEPT + timedelta(seconds=1))

    new = JobId(new_id())
    async with transactions.begin() as transaction:
        keys = IdempotencyKeys(Interrupted(transaction.connection, transactions))
        bound = await keys.claim([KeyClaim(key, b"f", new)], kept_for=KEPT)

    assert bound[key].job_id == new


async def test_of_many_claims_in_one_call_the_first_of_each_key_binds_it(transactions: Transactions) -> None:
    names = [f"key-{number:04}" for number in range(100)] * 5
    random.Random(1).shuffle(names)
    claims = [KeyClaim(a_key(name), b"f", JobId(new_id())) for name in names]

    async with transactions.begin() as transaction:
        bound = await transaction.idempotency.claim(claims, kept_for=KEPT)

    first = {each.key: each.job_id for each in reversed(claims)}
    assert {key: each.job_id for key, each in bound.items()} == first
