from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from job_api.operations.gathered_creations import ITEMS_MAX, WAITING_ITEMS_MAX, GatheredCreations
from job_api.operations.job_creation import Creation, Faulty, Item, Outcome
from job_api.operations.job_request import CheckedJob, CreateJobCommand
from shared.catalog import synthetic
from shared.domain.errors import InvalidInput, PlatformUnavailable
from shared.domain.identity import JobId, JobType, Owner, QueueName
from shared.domain.jobs import Job, JobState


class Database:
    """Notes each transaction, which lasts until it is let go on.

    Attributes:
        broken: Numbers of items that the database can't take.
        faulty: Numbers of items with a fault of their own.
    """

    def __init__(self) -> None:
        self.transactions = list[list[int]]()
        self.begun = asyncio.Semaphore(0)
        self.open = asyncio.Event()
        self.open.set()
        self.broken = set[int]()
        self.faulty = set[int]()
        self.away = False
        self.at_once = self.at_once_max = 0

    async def create(self, items: Sequence[Item]) -> list[Outcome]:
        numbers = [each.job_id.int for each in items]
        self.transactions.append(numbers)
        self.at_once += 1
        self.at_once_max = max(self.at_once, self.at_once_max)
        self.begun.release()
        await self.open.wait()
        self.at_once -= 1
        if self.away:
            raise PlatformUnavailable("database")
        if self.broken.intersection(numbers):
            raise ArithmeticError
        faults = {place: InvalidInput([]) for place, each in enumerate(numbers) if each in self.faulty}
        if faults:
            raise Faulty(faults)
        return [Creation(_job(each.job_id), replayed=False) for each in items]


def _job(job_id: JobId) -> Job:
    return Job(
        job_id=job_id,
        owner=Owner("owner"),
        job_type=JobType("synthetic"),
        queue=QueueName("drill"),
        state=JobState.QUEUED,
        priority=50,
        progress=0,
        progress_message="",
        create_time=datetime.now(UTC),
        start_time=None,
        finish_time=None,
        start_by_time=None,
        next_attempt_time=None,
        attempt=0,
        failures=0,
        losses=0,
        error=None,
        cancellation=None,
        artifact_count=0,
        output_hash="",
        origin_job_id=None,
        target=None,
        labels={},
        input_schema_version=1,
        output_schema_version=1,
        last_event_number=1,
    )


def items(*numbers: int, input: bytes = b"{}") -> list[Item]:
    command = CreateJobCommand(job_type="synthetic", input=input)
    checked = CheckedJob(command, synthetic.DEFINITION, Owner("owner"), b"", None)
    return [Item(JobId(UUID(int=number)), "owner", checked) for number in numbers]


def numbers(outcomes: Sequence[Outcome]) -> list[int | str]:
    return [each.job.job_id.int if isinstance(each, Creation) else each.reason for each in outcomes]


@pytest.fixture
def database() -> Database:
    return Database()


@pytest.fixture
def creations(database: Database) -> GatheredCreations:
    return GatheredCreations(database.create)


async def _held_up(database: Database, creations: GatheredCreations) -> asyncio.Task[list[Outcome]]:
    """Occupy a lane with one call, item 0, until the database is let go on."""
    database.open.clear()
    first = asyncio.create_task(creations(items(0)))
    await database.begun.acquire()
    return first


async def _waiting(creations: GatheredCreations, *calls: list[Item]) -> list[asyncio.Task[list[Outcome]]]:
    tasks = [asyncio.create_task(creations(each)) for each in calls]
    await asyncio.sleep(0)  # each has said what it wants
    return tasks


async def test_a_call_that_comes_alone_is_created_at_once(
    database: Database, creations: GatheredCreations
) -> None:
    assert numbers(await creations(items(1, 2))) == [1, 2]
    assert numbers(await creations(items(3))) == [3]
    assert await creations([]) == []
    assert database.transactions == [[1, 2], [3]]


async def test_calls_that_come_meanwhile_share_the_next_transaction(
    database: Database, creations: GatheredCreations
) -> None:
    first = await _held_up(database, creations)
    others = await _waiting(creations, items(1, 2), items(3), items(4))
    database.open.set()
    assert numbers(await first) == [0]
    assert [numbers(await each) for each in others] == [[1, 2], [3], [4]]
    assert database.transactions == [[0], [1, 2, 3, 4]]


async def test_a_second_lane_opens_once_many_wait_and_no_third(
    database: Database, creations: GatheredCreations
) -> None:
    await _held_up(database, creations)
    await _waiting(creations, *(items(number) for number in range(1, 16)))
    assert database.at_once == 1
    await _waiting(creations, items(16))
    await database.begun.acquire()
    others = await _waiting(creations, *(items(number) for number in range(17, 99)))
    assert database.at_once == 2
    database.open.set()
    await asyncio.gather(*others)
    assert database.at_once_max == 2
    assert [len(each) for each in database.transactions] == [1, 16, 82]


async def test_a_transaction_holds_a_thousand_items_or_eight_megabytes_and_at_least_one_call(
    database: Database, creations: GatheredCreations
) -> None:
    await _held_up(database, creations)
    large = b"x" * (5 << 20)
    others = await _waiting(
        creations,
        items(*range(1, ITEMS_MAX)),
        items(*range(ITEMS_MAX, ITEMS_MAX + 2)),
        items(5_000, input=large),
        items(5_001, input=large),
        items(5_002, 5_003, input=large),
    )
    database.open.set()
    await asyncio.gather(*others)
    assert [len(each) for each in database.transactions] == [1, 999, 3, 1, 2]


async def test_a_call_with_a_faulty_item_runs_alone_and_gets_its_others_created(
    database: Database, creations: GatheredCreations
) -> None:
    database.faulty = {2}
    await _held_up(database, creations)
    others = await _waiting(creations, items(1), items(2, 3), items(4))
    database.open.set()
    assert [numbers(await each) for each in others] == [[1], ["INVALID_INPUT", 3], [4]]
    assert database.transactions[2:] == [[1, 4], [2, 3], [3]]


async def test_of_a_transaction_that_fails_each_call_runs_alone(
    database: Database, creations: GatheredCreations
) -> None:
    database.broken = {2}
    await _held_up(database, creations)
    others = await _waiting(creations, items(1), items(2), items(3))
    database.open.set()
    outcomes = await asyncio.gather(*others, return_exceptions=True)
    assert isinstance(outcomes[1], ArithmeticError)
    assert [each for each in outcomes if isinstance(each, BaseException)] == [outcomes[1]]
    assert database.transactions[2:] == [[1], [2], [3]]


async def test_while_the_database_is_away_every_call_is_told_and_nothing_is_tried_again(
    database: Database, creations: GatheredCreations
) -> None:
    first = await _held_up(database, creations)
    others = await _waiting(creations, items(1), items(2))
    database.away = True
    database.open.set()
    outcomes = await asyncio.gather(first, *others, return_exceptions=True)
    assert [type(each) for each in outcomes] == [PlatformUnavailable] * 3
    assert database.transactions == [[0], [1, 2]]
    database.away = False
    assert numbers(await creations(items(3))) == [3]


async def test_a_caller_that_goes_away_disturbs_no_other(
    database: Database, creations: GatheredCreations
) -> None:
    first = await _held_up(database, creations)
    gone, stays = await _waiting(creations, items(1), items(2))
    first.cancel()
    gone.cancel()
    await asyncio.wait([first, gone])
    database.open.set()
    assert numbers(await stays) == [2]
    assert database.transactions == [[0], [2]]


async def test_more_than_there_is_room_for_is_refused(
    database: Database, creations: GatheredCreations
) -> None:
    first = await _held_up(database, creations)
    thousand = items(*range(ITEMS_MAX))
    under_way = await _waiting(creations, thousand)
    await database.begun.acquire()
    waiting = await _waiting(creations, *([thousand] * (WAITING_ITEMS_MAX // ITEMS_MAX)))
    with pytest.raises(PlatformUnavailable):
        await creations(items(1))
    database.open.set()
    await asyncio.gather(first, *under_way, *waiting)
    assert numbers(await creations(items(1))) == [1]


async def test_a_call_whose_turn_does_not_come_in_time_is_told_so_and_is_not_created(
    database: Database,
) -> None:
    creations = GatheredCreations(database.create, turn_within=timedelta(seconds=0.01))
    first = await _held_up(database, creations)
    (late,) = await _waiting(creations, items(1))
    with pytest.raises(PlatformUnavailable):
        await late
    database.open.set()
    assert numbers(await first) == [0]
    assert database.transactions == [[0]]
