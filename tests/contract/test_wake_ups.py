"""Hints and the events' copy, against every server that is on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from redis.asyncio import Redis

from shared.domain.identity import BatchId, JobId
from shared.runtime.ids import new_id
from shared.streams.channels import Channel
from shared.streams.connection import open_redis
from shared.streams.event_copy import EventCopy
from shared.streams.lease_streams import LeaseStreams
from shared.streams.wake_ups import BatchesChanged, CancelsRequested, JobsChanged, StreamsFilled, WakeUps
from tests.support.waiting import NORMAL, URGENT, waiting


@dataclass(frozen=True)
class Event:
    event_type: str
    dedupe_key: str
    payload: str
    create_time: datetime


class Wire:
    """A way to a server that can be cut without either end noticing."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._open = asyncio.Event()
        self._open.set()

    def cut(self) -> None:
        self._open.clear()

    def mend(self) -> None:
        """Let new connections through; what was on its way is lost."""
        self._open = asyncio.Event()
        self._open.set()

    @asynccontextmanager
    async def laid(self) -> AsyncIterator[int]:
        """Yield the port of this end."""
        async with await asyncio.start_server(self._connected, "127.0.0.1", 0) as server:
            yield server.sockets[0].getsockname()[1]

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        whole = self._open
        pumps = [
            asyncio.ensure_future(self._pump(reader, far_writer, whole)),
            asyncio.ensure_future(self._pump(far_reader, writer, whole)),
        ]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        for each in (writer, far_writer):
            each.close()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, whole: asyncio.Event
    ) -> None:
        while data := await reader.read(65_536):
            if whole.is_set():
                writer.write(data)


async def test_an_append_wakes_whoever_listens_for_filled_streams(
    streams: LeaseStreams, wake_ups: WakeUps
) -> None:
    async with wake_ups.listen(Channel.STREAMS_FILLED) as hints:
        await streams.append([waiting(NORMAL), waiting(URGENT)])

        assert await anext(hints) == StreamsFilled(frozenset({NORMAL, URGENT}))


async def test_hints_arrive_on_the_channels_that_were_asked_for(wake_ups: WakeUps) -> None:
    changed, cancelled, batch = JobId(new_id()), JobId(new_id()), BatchId(new_id())
    wanted = (Channel.JOBS_CHANGED, Channel.BATCHES_CHANGED, Channel.CANCELS_REQUESTED)
    async with wake_ups.listen(*wanted) as hints:
        await wake_ups.jobs_changed([changed])
        await wake_ups.batches_changed([batch])
        await wake_ups.cancels_requested([cancelled])

        assert await anext(hints) == JobsChanged(frozenset({changed}))
        assert await anext(hints) == BatchesChanged(frozenset({batch}))
        assert await anext(hints) == CancelsRequested(frozenset({cancelled}))


async def test_hints_that_nobody_heeds_are_dropped(wake_ups: WakeUps) -> None:
    unheeded, heeded = JobId(new_id()), JobId(new_id())
    answers = iter((False, True))
    async with wake_ups.listen(Channel.JOBS_CHANGED, heeded=lambda: next(answers)) as hints:
        await wake_ups.jobs_changed([unheeded])
        await wake_ups.jobs_changed([heeded])

        assert await anext(hints) == JobsChanged(frozenset({heeded}))


async def test_a_listener_subscribes_again_when_its_connection_breaks(
    wake_ups: WakeUps, redis: Redis
) -> None:
    job_id = JobId(new_id())
    async with wake_ups.listen(Channel.JOBS_CHANGED) as hints:
        heard = asyncio.ensure_future(anext(hints))
        await redis.client_kill_filter(_type="pubsub")
        while not heard.done():
            await wake_ups.jobs_changed([job_id])
            await asyncio.wait([heard], timeout=0.05)

        assert heard.result() == JobsChanged(frozenset({job_id}))


async def test_a_listener_notices_that_a_connection_is_dead_though_nothing_broke_it(
    url: str, redis: Redis, prefix: str
) -> None:
    server = urlsplit(url)
    assert server.hostname is not None
    assert server.port is not None
    job_id = JobId(new_id())
    wire = Wire(server.hostname, server.port)
    async with wire.laid() as port:
        address = url.replace(f":{server.port}/", f":{port}/")
        async with (
            open_redis(address) as behind_wire,
            WakeUps(behind_wire, prefix=prefix).listen(
                Channel.JOBS_CHANGED, silence=timedelta(seconds=0.1)
            ) as hints,
        ):
            wire.cut()
            wire.mend()
            heard = asyncio.ensure_future(anext(hints))
            while not heard.done():
                await WakeUps(redis, prefix=prefix).jobs_changed([job_id])
                await asyncio.wait([heard], timeout=0.05)

    assert heard.result() == JobsChanged(frozenset({job_id}))


async def test_events_are_copied_for_other_services_in_order(redis: Redis, prefix: str) -> None:
    time = datetime(2030, 1, 1, tzinfo=UTC)
    events = [
        Event("job.succeeded", f"job.succeeded:{n}", f'{{"state":"SUCCEEDED","attempt":{n}}}', time)
        for n in (1, 2)
    ]

    await EventCopy(redis, prefix=prefix).append(events)

    copied: list[Any] = [fields for _, fields in await redis.xrange(f"{prefix}events") or []]
    assert [each[b"dedupe_key"] for each in copied] == [b"job.succeeded:1", b"job.succeeded:2"]
    assert copied[0][b"payload"] == b'{"state":"SUCCEEDED","attempt":1}'
    assert copied[0][b"create_time"] == b"2030-01-01T00:00:00+00:00"
