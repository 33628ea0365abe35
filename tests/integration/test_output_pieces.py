"""Streamed output at the database: without gaps, and never after the end of its attempt."""

from __future__ import annotations

import asyncio

from shared.domain.attempts import AttemptEnd, AttemptOutcome, Finish
from shared.domain.events import JobEventKind
from shared.domain.jobs import JobChange
from shared.domain.leases import Lease
from shared.storage.pieces import OutputPiece
from shared.storage.state_changes import Ending
from shared.storage.transactions import Transactions
from tests.support.storage import RETRYABLE, a_lease, end_attempt, opened


def pieces(lease: Lease, *numbers: int) -> list[OutputPiece]:
    return [OutputPiece(lease.ref, number, f"{number} ") for number in numbers]


async def add(transactions: Transactions, lease: Lease, *numbers: int) -> int | None:
    async with transactions.begin() as transaction:
        return (await transaction.pieces.add(pieces(lease, *numbers))).get(lease.ref)


async def texts(transactions: Transactions, lease: Lease) -> list[str]:
    async with transactions.begin() as transaction:
        found = await transaction.pieces.texts([lease.ref], [lease.attempt])
        return list(found[lease.ref])


async def end(transactions: Transactions, lease: Lease) -> None:
    async with transactions.begin() as transaction:
        held = (await transaction.attempts.lock([lease.ref]))[lease.ref]
        finish = Finish(JobChange.SUCCEEDED, None, held.standing)
        ending = Ending(lease.ref, AttemptEnd(AttemptOutcome.SUCCEEDED), finish)
        assert await transaction.states.end_attempts([ending])


async def test_a_piece_behind_a_gap_is_not_stored_until_the_gap_is_filled(database_url: str) -> None:
    async with opened(database_url) as transactions:
        lease = await a_lease(transactions)

        assert await add(transactions, lease, 2) == 0
        assert await add(transactions, lease, 1, 3) == 1
        assert await add(transactions, lease, 5, 3, 2) == 3
        assert await add(transactions, lease, 1, 2, 2, 4) == 4
        assert await add(transactions, lease, 1) == 4

        assert await texts(transactions, lease) == ["1 ", "2 ", "3 ", "4 "]


async def test_pieces_of_many_leases_are_stored_each_for_itself(database_url: str) -> None:
    async with opened(database_url) as transactions:
        leases = [await a_lease(transactions) for _ in range(3)]
        await add(transactions, leases[1], 1, 2)

        async with transactions.begin() as transaction:
            stored = await transaction.pieces.add(
                [*pieces(leases[0], 1), *pieces(leases[1], 3, 4), *pieces(leases[2], 2)]
            )

        assert stored == {leases[0].ref: 1, leases[1].ref: 4, leases[2].ref: 0}


async def test_an_attempt_does_not_end_before_pieces_that_came_first_are_committed(
    database_url: str,
) -> None:
    async with opened(database_url) as transactions:
        lease = await a_lease(transactions)
        async with transactions.begin() as transaction:
            await transaction.pieces.add(pieces(lease, 1))
            ending = asyncio.create_task(end(transactions, lease))
            done, _ = await asyncio.wait({ending}, timeout=0.5)
            assert not done

        await ending
        assert await texts(transactions, lease) == ["1 "]
        assert await add(transactions, lease, 2) is None


async def test_two_sessions_that_bring_the_same_first_piece_begin_the_output_anew_once(
    database_url: str,
) -> None:
    """An executor that moves sends again what was not answered, while its old session still stores it."""
    async with opened(database_url) as transactions:
        failed = await a_lease(transactions)
        await add(transactions, failed, 1, 2)
        await end_attempt(transactions, failed.ref, AttemptEnd(AttemptOutcome.FAILED, RETRYABLE))
        lease = await a_lease(transactions, job_id=failed.ref.job_id, attempt=2)

        async with transactions.begin() as transaction:
            await transaction.pieces.add(pieces(lease, 1))
            moved = asyncio.create_task(add(transactions, lease, 1, 2))
            done, _ = await asyncio.wait({moved}, timeout=0.5)
            assert not done
        assert await moved == 2

        async with transactions.begin() as transaction:
            events = await transaction.events.after({lease.ref.job_id: 0}, limit=100)
    assert [each.kind for each in events].count(JobEventKind.OUTPUT_RESET) == 1
    assert [each.number for each in events] == list(range(1, len(events) + 1))
