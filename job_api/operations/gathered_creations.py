"""Gathers what many calls create at the same time, so that they share a transaction.

A transaction costs about the same with one job or with fifty: its round trips, its commit, its flush of the
log. So a call that comes while nothing is being created is worked on at once, alone; what comes meanwhile
waits until a lane is free, and then goes together. No timer is involved: a batch is as large as the database
is slow. A second lane opens once several items wait, so that one batch is made while another's commit is
flushed.

Who is authoritative. The database; nothing here remembers what was created.

What is promised. Calls share nothing but a transaction, and each gets its own outcomes:

- An item has a fault of its own: nothing of its batch was written. The calls that hold such items run alone,
  after the others, which share a transaction again.
- Something else fails in a shared transaction, such as a value that no check foresaw: each call runs alone,
  and only the one that holds it fails.
- The database is away, or ends the transaction for nobody's fault: every call of the batch is told. Their
  jobs may or may not exist.
- A caller goes away, by a cancel or its deadline: if its turn has not come, nothing of it is written; if it
  has, its jobs are created like all others. The rest of the batch does not notice.
- More waits than there is room for, or a turn does not come in time: that call is told that the database is
  not available, and nothing of it was written.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextvars import Context
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

import structlog

from job_api.operations.job_creation import Faulty, Item, Outcome
from shared.domain.errors import PlatformUnavailable

log = structlog.get_logger(__name__)

ITEMS_MAX = 1_000
"""Of one transaction: as much as one call may hold, some 50 ms."""
BYTES_MAX = 8 * 1024 * 1024
"""Of the inputs of one transaction; at least one call is taken, whatever its size."""
LANES_MAX = 2
"""Transactions under way at a time: while one is flushed, another is filled. More would make them smaller."""
SECOND_LANE_ITEMS = 16
"""So many items must wait for the second lane: fewer are better gathered for a little longer."""
WAITING_ITEMS_MAX = 10_000
"""Some seconds of work: a caller that would wait longer is better told so."""
WAITING_BYTES_MAX = 64 * 1024 * 1024
"""What waits is held in memory."""
TURN_WITHIN = timedelta(seconds=5)
"""The longest wait for a turn; as long as for a connection."""

Create = Callable[[Sequence[Item]], Awaitable[list[Outcome]]]


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """One caller's items, all of which are created together."""

    items: Sequence[Item]
    weight: int
    outcomes: asyncio.Future[list[Outcome]]

    def succeed(self, outcomes: list[Outcome]) -> None:
        if not self.outcomes.done():  # its caller may have gone
            self.outcomes.set_result(outcomes)

    def fail(self, error: Exception) -> None:
        if not self.outcomes.done():
            self.outcomes.set_exception(error)


class GatheredCreations:
    """Its lanes are tasks that end by themselves when nothing waits."""

    def __init__(self, create: Create, *, turn_within: timedelta = TURN_WITHIN) -> None:
        """Begin with nothing; `create` is a transaction, and raises what `JobCreation` does."""
        self._create = create
        self._turn_seconds = turn_within.total_seconds()
        self._waiting = deque[_Call]()
        self._waiting_items = 0
        self._waiting_bytes = 0
        self._lanes = set[asyncio.Task[None]]()

    async def __call__(self, items: Sequence[Item]) -> list[Outcome]:
        """Create the items together with those of other calls, and return their outcomes in their order.

        Args:
            items: May be empty.

        Raises:
            PlatformUnavailable: Jobs may or may not exist; calling again with the same keys tells.
        """
        if not items:
            return []
        call = self._queued(items)
        turn = asyncio.get_running_loop().call_later(self._turn_seconds, self._give_up, call)
        try:
            return await call.outcomes
        finally:
            turn.cancel()

    def _queued(self, items: Sequence[Item]) -> _Call:
        """Put a call behind the others, and see to it that a lane takes it.

        Raises:
            PlatformUnavailable: There is no room.
        """
        weight = sum(each.weight for each in items)
        if self._waiting and (
            self._waiting_items + len(items) > WAITING_ITEMS_MAX
            or self._waiting_bytes + weight > WAITING_BYTES_MAX
        ):
            raise PlatformUnavailable("database")
        call = _Call(items, weight, asyncio.get_running_loop().create_future())
        self._waiting.append(call)
        self._waiting_items += len(items)
        self._waiting_bytes += weight
        if not self._lanes or (len(self._lanes) < LANES_MAX and self._waiting_items >= SECOND_LANE_ITEMS):
            # In a context of its own: it works for many callers, and must not log or act in the name of one.
            self._lanes.add(asyncio.create_task(self._work(), context=Context()))
        return call

    def _give_up(self, call: _Call) -> None:
        if call in self._waiting:
            call.fail(PlatformUnavailable("database"))

    async def _work(self) -> None:
        try:
            while batch := self._taken():
                await self._create_together(batch)
        finally:  # at once, and not when the task is done: a call that comes between would wait for nobody
            self._lanes.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    def _taken(self) -> list[_Call]:
        """Take a batch out of what waits, without the calls whose callers have gone."""
        batch, items, weight = list[_Call](), 0, 0
        while self._waiting:
            call = self._waiting[0]
            items += len(call.items)
            weight += call.weight
            if batch and (items > ITEMS_MAX or weight > BYTES_MAX):
                break
            self._waiting.popleft()
            self._waiting_items -= len(call.items)
            self._waiting_bytes -= call.weight
            if call.outcomes.done():
                items -= len(call.items)
                weight -= call.weight
            else:
                batch.append(call)
        return batch

    async def _create_together(self, calls: Sequence[_Call]) -> None:
        for call in await self._share(list(calls)):
            try:
                call.succeed(await self._created_alone(call.items))
            except Exception as error:  # noqa: BLE001 - it is this caller's
                call.fail(error)

    async def _share(self, calls: list[_Call]) -> list[_Call]:
        """Create what the calls ask for in one transaction; return those that are to run alone."""
        apart = list[_Call]()
        while len(calls) > 1:  # each round but the last takes at least one call away
            try:
                outcomes = await self._create([item for call in calls for item in call.items])
            except Faulty as error:
                spoiling = _holding(calls, error.faults)
                apart += spoiling
                calls = [each for each in calls if each not in spoiling]
                continue
            except PlatformUnavailable as error:
                _fail(calls, error)
                return apart
            except Exception as error:  # noqa: BLE001 - the call that meets it alone is told
                log.warning("creations.parted", calls=len(calls), error=type(error).__name__)
                return [*calls, *apart]
            _hand_out(calls, outcomes)
            return apart
        return [*calls, *apart]

    async def _created_alone(self, items: Sequence[Item]) -> list[Outcome]:
        """Create one call's items; those with a fault of their own are left out."""
        outcomes = dict[int, Outcome]()
        left = list(range(len(items)))
        while left:  # each round but the last takes at least one item away
            try:
                outcomes |= zip(left, await self._create([items[each] for each in left]), strict=True)
                break
            except Faulty as error:
                outcomes |= {left[place]: fault for place, fault in error.faults.items()}
                left = [each for each in left if each not in outcomes]
        return [outcomes[place] for place in range(len(items))]


def _holding(calls: Sequence[_Call], places: Collection[int]) -> list[_Call]:
    """Return the calls whose items are at these places in the row of all calls' items."""
    owners = [call for call in calls for _ in call.items]
    return list(dict.fromkeys(owners[place] for place in places))


def _hand_out(calls: Sequence[_Call], outcomes: Sequence[Outcome]) -> None:
    first = 0
    for call in calls:
        call.succeed(list(outcomes[first : first + len(call.items)]))
        first += len(call.items)


def _fail(calls: Sequence[_Call], error: PlatformUnavailable) -> None:
    for call in calls:
        own = PlatformUnavailable(error.what)  # one that is raised in several tasks would gather their traces
        own.__cause__ = error
        call.fail(own)
