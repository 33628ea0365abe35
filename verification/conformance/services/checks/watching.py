"""What watchers are told, from any point on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from verification.conformance.services.check import Theme
from verification.conformance.services.refusals import refused
from verification.conformance.services.target import Target
from verification.unmet import Unmet, require

_KEEP_ALIVE_SECONDS_MAX = 20.0
"""They come every 15 s."""
_LIVE_SECONDS_MAX = 10.0
_CREATED = job_pb2.JOB_EVENT_KIND_CREATED
_CANCELLED = job_pb2.JOB_EVENT_KIND_CANCELLED


async def events_are_numbered_without_gaps_and_the_stream_says_its_end(target: Target) -> None:
    """A watch of an ended job tells every event from 1 on, each with a cursor, then that it is finished."""
    job_id = await _cancelled_job(target)
    updates = await target.control.watch_to_end(job_id)
    told = [(each.event.number, each.event.kind) for each in _events(updates)]
    require(told == [(1, _CREATED), (2, _CANCELLED)], f"the events are {told}")
    require(all(each.cursor for each in updates), "an update came without a cursor")
    last = updates[-1]
    require(last.HasField("ended"), f"the last update is {last}")
    require(last.ended.reason == pb.WATCH_END_REASON_FINISHED, f"it ended with {last.ended.reason}")
    require(all(each.event.job_id == job_id for each in _events(updates)), "an event names another job")
    require(all(each.event.HasField("event_time") for each in _events(updates)), "an event has no time")


async def a_watch_begins_after_a_number(target: Target) -> None:
    """A watch from a number on tells what follows it and nothing before."""
    job_id = await _cancelled_job(target)
    for after in (0, 1, 2):
        updates = [each async for each in target.control.watch(job_id, after_event_number=after)]
        told = [each.event.number for each in _events(updates)]
        require(told == list(range(after + 1, 3)), f"after {after} came {told}")
        require(updates[-1].HasField("ended"), f"after {after} the stream did not say its end")


async def a_watch_resumes_at_every_cursor(target: Target) -> None:
    """A watch that resumes at a cursor is told what had not come yet, each once; no number counts then."""
    job_id = await _cancelled_job(target)
    updates = await target.control.watch_to_end(job_id)
    for place, update in enumerate(updates):
        watch = target.control.watch(job_id, cursor=update.cursor, after_event_number=1)
        resumed = [each.event.number for each in _events([each async for each in watch])]
        wanted = [each.event.number for each in _events(updates[place + 1 :])]
        require(resumed == wanted, f"at cursor {place + 1} came {resumed}, and {wanted} had not been told")


async def a_bad_cursor_is_refused(target: Target) -> None:
    """A cursor that is malformed or of another job is INVALID_INPUT at `cursor`."""
    job_id, other = await _cancelled_job(target), await _cancelled_job(target)
    cursor = (await target.control.watch_to_end(other))[0].cursor
    for bad in ("nonsense", "A" * 500, cursor, cursor[:-2]):
        call = _told(target, job_id, bad)
        await refused(call, "INVALID_INPUT", "cursor", when=f"cursor {bad:.40}")


async def a_watcher_is_told_while_it_waits(target: Target) -> None:
    """Two watchers that wait are both told of an event that comes, and their streams end with it."""
    job_id = (await target.waiting_job()).job_id
    begun = [asyncio.Event(), asyncio.Event()]
    watches = [asyncio.create_task(_watched(target, job_id, each)) for each in begun]
    try:
        async with asyncio.timeout(_LIVE_SECONDS_MAX):
            await asyncio.gather(*(each.wait() for each in begun))
            await target.control.cancel(job_id)
            told = await asyncio.gather(*watches)
    except TimeoutError:
        raise Unmet(f"they were not told within {_LIVE_SECONDS_MAX:.0f} s") from None
    finally:
        for each in watches:
            each.cancel()
    require(told == [[1, 2], [1, 2]], f"they were told {told}")


async def a_quiet_watch_says_that_it_lives(target: Target) -> None:
    """A watch of which nothing happens sends a keep-alive every 15 s."""
    job_id = (await target.waiting_job()).job_id
    request = pb.WatchJobRequest(job_id=job_id, after_event_number=1)
    stream = target.job_control.WatchJob(request, metadata=target.metadata)
    try:
        async with asyncio.timeout(_KEEP_ALIVE_SECONDS_MAX):
            update = await stream.read()
    except TimeoutError:
        raise Unmet(f"nothing came within {_KEEP_ALIVE_SECONDS_MAX:.0f} s") from None
    finally:
        stream.cancel()
    require(update.HasField("keep_alive"), f"what came is {update}")


async def _cancelled_job(target: Target) -> str:
    job = await target.waiting_job()
    await target.control.cancel(job.job_id)
    return job.job_id


async def _told(target: Target, job_id: str, cursor: str) -> Sequence[pb.WatchJobResponse]:
    return [each async for each in target.control.watch(job_id, cursor=cursor)]


async def _watched(target: Target, job_id: str, begun: asyncio.Event) -> list[int]:
    numbers = []
    async with aclosing(target.control.watch(job_id)) as updates:
        async for update in updates:
            begun.set()
            if update.HasField("event"):
                numbers.append(update.event.number)
    return numbers


def _events(updates: Sequence[pb.WatchJobResponse]) -> Sequence[pb.WatchJobResponse]:
    return [each for each in updates if each.HasField("event")]


THEME = Theme(
    "watching",
    (
        events_are_numbered_without_gaps_and_the_stream_says_its_end,
        a_watch_begins_after_a_number,
        a_watch_resumes_at_every_cursor,
        a_bad_cursor_is_refused,
        a_watcher_is_told_while_it_waits,
        a_quiet_watch_says_that_it_lives,
    ),
)
