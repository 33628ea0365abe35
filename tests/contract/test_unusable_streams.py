"""A key that holds another program's value stops its own stream and none of the others."""

from __future__ import annotations

from datetime import timedelta

import structlog
from redis.asyncio import Redis

from shared.domain.identity import JobType
from shared.streams.lease_streams import UNREADABLE, Depth, Entry, LeaseStreams
from tests.support.waiting import IMPORTS, NORMAL, URGENT, waiting

LEASE_KEY = "lease:{drill}:synthetic:1.1:2"
DEMAND_KEY = "demand:{drill}:synthetic:1.1:2"
AT_ONCE = timedelta(0)


async def test_an_append_fills_the_other_streams_and_names_what_it_could_not_place(
    streams: LeaseStreams, redis: Redis, prefix: str
) -> None:
    await redis.set(prefix + LEASE_KEY, "something else")
    stuck, urgent, imported = waiting(NORMAL), waiting(URGENT), waiting(IMPORTS)

    appended = await streams.append([stuck, urgent, imported])

    assert appended.made_anew == {URGENT, IMPORTS}
    assert [(job_id, each.code) for job_id, each in appended.refused.items()] == [(stuck.job_id, "WRONGTYPE")]
    taken = await streams.take([(NORMAL, 9), (URGENT, 9), (IMPORTS, 9)], "a")
    assert [each.job_id for each in taken] == [urgent.job_id, imported.job_id]


async def test_an_attempt_of_which_no_entry_can_be_made_stops_no_other(streams: LeaseStreams) -> None:
    nameless, good = waiting(NORMAL), waiting(NORMAL)
    object.__setattr__(nameless, "job_type", JobType(""))

    appended = await streams.append([nameless, good])

    assert [(job_id, each.code) for job_id, each in appended.refused.items()] == [
        (nameless.job_id, UNREADABLE)
    ]
    assert [each.job_id for each in await streams.take([(NORMAL, 9)], "a")] == [good.job_id]


async def test_every_other_command_goes_on_with_the_other_streams(
    streams: LeaseStreams, redis: Redis, prefix: str
) -> None:
    await streams.append([waiting(URGENT)])
    await redis.set(prefix + LEASE_KEY, "something else")
    await redis.set(prefix + DEMAND_KEY, "something else")

    await streams.tell_demand("worker", {NORMAL: 3, URGENT: 4})
    depths = await streams.depths([NORMAL, URGENT])
    assert depths == {NORMAL: Depth(None, None, usable=False), URGENT: Depth(1, 4)}

    (entry,) = await streams.take([(NORMAL, 1), (URGENT, 1)], "a")
    assert await streams.take_over([NORMAL, URGENT], "b", idle=AT_ONCE, limit=9) == [entry]
    stuck = Entry(NORMAL, entry.entry_id, entry.job_id, entry.job_type, entry.queue, 50, 1)
    await streams.settle([stuck, entry])
    assert (await streams.depths([URGENT]))[URGENT].length == 0


async def test_an_unusable_stream_is_told_once_until_it_was_usable_again(
    streams: LeaseStreams, redis: Redis, prefix: str
) -> None:
    with structlog.testing.capture_logs() as lines:
        for _ in range(2):
            await redis.set(prefix + LEASE_KEY, "something else")
            await streams.depths([NORMAL])
            await streams.depths([NORMAL])
            await redis.delete(prefix + LEASE_KEY)
            await streams.depths([NORMAL])
    assert [line["event"] for line in lines] == ["lease_stream.unusable"] * 2
    assert lines[0]["stream"] == NORMAL
