"""Case 14: a batch's counters are exact at every moment, whatever dies, and it settles once each time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from shared.gen.baton.v1 import batch_pb2
from verification.cases.batch_answers import answers_about_batches_lost_after_commit
from verification.cases.batch_changes import every_call_races_every_other_under_fire
from verification.cases.case import Case
from verification.evidence.batches import COUNTERS
from verification.evidence.tables import OF_RUN
from verification.peers.batches import Batches
from verification.stage import sampling
from verification.stage.fire import Fire
from verification.stage.stage import Stage
from verification.unmet import require

_BATCHES = 4
_ITEMS = 500
_ITEMS_MIN = 60
_FAILING_SHARE = 0.03
_FIRE_SECONDS = 60.0
_FIRE_SECONDS_MIN = 20.0
_SETTLE_SECONDS = 180.0
_LOOK_SECONDS = 0.2
_EXECUTORS = ("a", "b", "c", "d")
_AT_ONCE = 8

_CANCELLED_ITEMS = 300
_CANCELLED_ITEMS_MIN = 100
_HALF_WAY_SECONDS = 60.0
_SUCCEEDED = f"select count(*) from jobs where {OF_RUN} and state = 'SUCCEEDED'"
_JOBS = f"select count(*) from jobs where {OF_RUN}"


async def counters_are_exact_under_fire(stage: Stage) -> None:
    """Counters are exact at every moment while all is killed; a retry runs those items alone that failed."""
    size = stage.scaled(_ITEMS, at_least=_ITEMS_MIN)
    seconds = max(_FIRE_SECONDS * stage.terms.scale, _FIRE_SECONDS_MIN)
    failing = max(1, round(size * _FAILING_SHARE))
    batches = _looked_at(stage)
    executors = await stage.executors.start_all(*_EXECUTORS, kept_alive=True, queues__drill__at_once=_AT_ONCE)
    burning = stage.beside(Fire(stage, executors).burn(seconds))
    created = [await batches.create(_items(stage, size, failing)) for _ in range(_BATCHES)]
    watches = [stage.beside(batches.watch_to_end(each.batch_id, seconds=_SETTLE_SECONDS)) for each in created]
    await burning
    for batch, watch in zip(created, watches, strict=True):
        _require_told(batch, await watch, first=1)
        await _require_settled(batches, batch, failing=failing)
    await _require_retried(stage, batches, created, failing)
    stage.notes |= {"batches": _BATCHES, "items": size, "moments": len(stage.samples.batches)}


async def a_cancel_half_way_skips_what_waits(stage: Stage) -> None:
    """A cancel half-way skips what waits at once, and what runs may finish."""
    size = stage.scaled(_CANCELLED_ITEMS, at_least=_CANCELLED_ITEMS_MIN)
    batches = _looked_at(stage)
    await stage.executors.start_all(*_EXECUTORS[:2], queues__drill__at_once=_AT_ONCE)
    batch = await batches.create([stage.work(duration_seconds=0.5)] * size)
    await stage.until_value(
        _SUCCEEDED,
        stage.run,
        holds=lambda count: count >= size // 3,
        seconds=_HALF_WAY_SECONDS,
        what="a third of the items to be done",
    )
    cancelled = await batches.cancel(batch.batch_id)
    require(cancelled.counters.waiting == 0, f"after the cancel {cancelled.counters} are told")
    require(cancelled.counters.skipped > 0, f"the cancel skipped nothing: {cancelled.counters}")
    await batches.watch_to_end(batch.batch_id, seconds=_SETTLE_SECONDS)
    ended = (await batches.get(batch.batch_id)).batch
    require(ended.state == batch_pb2.BATCH_STATE_CANCELLED, f"it has settled as {ended}")
    require(
        ended.counters.skipped == cancelled.counters.skipped, f"after {cancelled} it has settled as {ended}"
    )
    require(ended.counters.failed == 0, f"it has settled as {ended}")


def _looked_at(stage: Stage) -> Batches:
    """Begin to look at the batches of this part again and again, and return what calls about them."""
    stage.beside(_look_again(stage))
    return Batches(stage.control)


async def _look_again(stage: Stage) -> None:
    while True:
        await sampling.look_at_batches(stage.stack, stage.history, stage.run, stage.samples)
        await asyncio.sleep(_LOOK_SECONDS)


def _items(stage: Stage, size: int, failing: int) -> Sequence[dict[str, Any]]:
    """Work for each item, most of it quick; some fails for good, at places that chance decides."""
    fails = set(stage.random.sample(range(size), failing))
    return [_item(stage, fails=place in fails) for place in range(size)]


def _item(stage: Stage, *, fails: bool) -> dict[str, Any]:
    if fails:
        return stage.work(fail_attempts=list(range(1, 101)), fail_code="INPUT_BROKEN")
    if stage.random.random() < 0.2:  # noqa: PLR2004 - a fifth
        return stage.work(fail_attempts=[1])
    return stage.work(duration_seconds=stage.random.uniform(0, 1))


def _require_told(batch: batch_pb2.Batch, events: Sequence[batch_pb2.BatchEvent], *, first: int) -> None:
    """A watcher gets every event once, in order, and each one's counters add up."""
    numbers = [each.number for each in events]
    require(numbers == list(range(first, first + len(numbers))), f"a watch was told the events {numbers}")
    sums = {sum(getattr(each.counters, name) for name in COUNTERS) for each in events}
    require(sums == {batch.size}, f"a watch of {batch.size} items was told counters of {sums}")


async def _require_settled(batches: Batches, batch: batch_pb2.Batch, *, failing: int) -> None:
    told = await batches.get(batch.batch_id)
    state, counters = told.batch.state, told.batch.counters
    right = state == batch_pb2.BATCH_STATE_PARTIALLY_FAILED
    require(right, f"it has settled as {batch_pb2.BatchState.Name(state)} with {counters}")
    found = (counters.succeeded, counters.failed)
    require(found == (batch.size - failing, failing), f"it has settled with {counters}")
    require(len(told.failed_items) == failing, f"{len(told.failed_items)} failed items are told")


async def _require_retried(
    stage: Stage, batches: Batches, created: Sequence[batch_pb2.Batch], failing: int
) -> None:
    """Try what failed again: it fails again, and nothing else runs."""
    jobs = await stage.value(_JOBS, stage.run)
    for batch in created:
        last = (await batches.get(batch.batch_id)).batch.last_event_number
        require(await batches.retry(batch.batch_id) == failing, "other items were tried again than failed")
        _require_told(batch, await batches.watch_to_end(batch.batch_id, after=last), first=last + 1)
        await _require_settled(batches, batch, failing=failing)
    more = await stage.value(_JOBS, stage.run) - jobs
    require(more == failing * len(created), f"{more} jobs were made by retries of {failing * len(created)}")


CASE = Case(
    14,
    "batches",
    (
        counters_are_exact_under_fire,
        a_cancel_half_way_skips_what_waits,
        every_call_races_every_other_under_fire,
        answers_about_batches_lost_after_commit,
    ),
)
