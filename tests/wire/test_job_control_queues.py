"""Queues and executors, as operators are told of them."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.identity import IncarnationId, JobType, Owner, QueueName, SessionId, StreamName
from shared.domain.jobs import JobState
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import operation_pb2
from shared.runtime.ids import new_id
from shared.storage import queue_figures
from shared.streams.connection import open_redis
from shared.streams.lease_streams import LeaseStreams
from tests.support import storage
from tests.support.control_service import Control, control_running
from tests.support.storage import STREAM
from verification.peers.cuttable import cuttable

OTHER_BAND = StreamName("drill:synthetic:1.1:0")


async def changed(control: Control, statement: str, **parameters: Any) -> None:
    async with control.transactions.begin() as transaction:
        await transaction.connection.execute(sa.text(statement), parameters)


async def connect(control: Control, name: str, *job_types: str) -> storage.Session:
    session = storage.Session(SessionId(new_id()), IncarnationId(new_id()), name)
    async with control.transactions.begin() as transaction:
        await transaction.sessions.replace(
            session.incarnation_id,
            session.session_id,
            executor_name=name,
            runtime="baton/0.1.0 python/3.11",
            job_types=[JobType(each) for each in job_types],
        )
    return session


async def executors(control: Control, page_size: int = 0) -> list[operation_pb2.Executor]:
    found: list[operation_pb2.Executor] = []
    token, pages = "", 0
    while pages == 0 or token:
        request = pb.ListExecutorsRequest(page_size=page_size, page_token=token)
        page = await control.stub.ListExecutors(request)
        found += page.executors
        token, pages = page.next_page_token, pages + 1
    return found


async def queue(control: Control, name: str = "drill") -> operation_pb2.QueueStatus:
    page: pb.ListQueuesResponse = await control.stub.ListQueues(pb.ListQueuesRequest())
    (status,) = [each for each in page.queues if each.queue == name]
    return status


async def test_executors_are_listed_by_name_each_start_for_itself(control: Control) -> None:
    assert await executors(control) == []
    for name in ("b", "a", "c", "a", ""):
        await connect(control, name, "synthetic", "document_import")
    found = await executors(control, page_size=2)
    assert [each.executor_name for each in found] == ["", "a", "a", "b", "c"]
    assert len({each.incarnation_id for each in found}) == 5
    first = found[0]
    assert UUID(first.incarnation_id).version == 7
    assert (first.runtime, first.leases) == ("baton/0.1.0 python/3.11", 0)
    assert list(first.job_types) == ["synthetic", "document_import"]
    assert not first.HasField("credits")
    assert not first.HasField("draining")


async def test_an_executor_was_last_seen_at_its_hello_or_at_a_heartbeat_for_a_lease(control: Control) -> None:
    busy, idle = await connect(control, "busy", "synthetic"), await connect(control, "idle", "synthetic")
    leases = [await storage.a_lease(control.transactions, session=busy) for _ in range(2)]
    told = {each.executor_name: each for each in await executors(control)}
    assert {name: each.leases for name, each in told.items()} == {"busy": 2, "idle": 0}

    await changed(control, "update executor_sessions set hello_time = engine_time() - interval '20 minutes'")
    hello = {each.executor_name: each.last_seen_time for each in await executors(control)}
    await changed(
        control,
        "update leases set heartbeat_time = engine_time() + interval '1 second' where job_id = :job_id",
        job_id=leases[0].ref.job_id,
    )
    told = {each.executor_name: each for each in await executors(control)}
    age = told["busy"].last_seen_time.ToDatetime() - hello["busy"].ToDatetime()
    assert timedelta(minutes=19) < age < timedelta(minutes=22)
    assert told["idle"].last_seen_time == hello["idle"]

    async with control.transactions.begin() as transaction:
        await transaction.sessions.end(idle.incarnation_id, idle.session_id)
    assert [each.executor_name for each in await executors(control)] == ["busy"]


async def test_all_queues_are_listed_by_name_also_those_that_only_jobs_know(control: Control) -> None:
    strange = {"queue": QueueName("gone"), "stream": StreamName("gone:lost_type:1.1:2")}
    await storage.a_job(control.transactions, job_type=JobType("lost_type"), **strange)
    found: list[operation_pb2.QueueStatus] = []
    token, pages = "", 0
    while pages == 0 or token:
        page = await control.stub.ListQueues(pb.ListQueuesRequest(page_size=4, page_token=token))
        found += page.queues
        token, pages = page.next_page_token, pages + 1
    assert pages == 4
    names = [each.queue for each in found]
    assert names == sorted(names)
    assert len(names) == 15
    told = {each.queue: each for each in found}
    assert (told["gone"].waiting, told["gone"].group) == (1, "")
    assert (told["image_render"].waiting, told["image_render"].group) == (0, "image")


async def test_a_queue_tells_what_waits_what_runs_and_how_long_the_oldest_has_been_due(
    control: Control,
) -> None:
    status = await queue(control)
    assert (status.waiting, status.running, status.HasField("oldest_due_age")) == (0, 0, False)

    session = await connect(control, "executor-1", "synthetic")
    leases = [await storage.a_lease(control.transactions, session=session) for _ in range(3)]
    await storage.end_attempt(control.transactions, leases[0].ref, AttemptEnd(AttemptOutcome.SUCCEEDED))
    later = await storage.a_job(control.transactions)
    await changed(
        control,
        """update outbox set available_time = engine_time() + interval '1 day', state = 'pending'
        where aggregate_id = :job_id""",
        job_id=later,
    )
    status = await queue(control)
    assert (status.waiting, status.running, status.HasField("oldest_due_age")) == (1, 2, False)

    for state, minutes, stream in (("delivered", 3, STREAM), ("dead", 7, OTHER_BAND), ("dead", 5, STREAM)):
        job_id = await storage.a_job(control.transactions, stream=stream)
        await changed(
            control,
            """update outbox set state = :state,
                available_time = engine_time() - :minutes * interval '1 minute'
            where aggregate_id = :job_id""",
            state=state,
            minutes=minutes,
            job_id=job_id,
        )
    status = await queue(control)
    assert (status.waiting, status.running) == (4, 2)
    assert timedelta(minutes=7) <= status.oldest_due_age.ToTimedelta() < timedelta(minutes=8)
    assert not status.HasField("started_last_minute")
    assert not status.HasField("pause")


async def test_jobs_are_counted_that_finished_in_the_last_minute(control: Control) -> None:
    for state in (JobState.FAILED, JobState.SUCCEEDED, JobState.CANCELLED, JobState.FAILED):
        await storage.job_in(control.transactions, state)
    await numbered(control, 4)
    old = """update outbox set create_time = engine_time() - interval '2 minutes'
        where event_type in ('job.failed', 'job.succeeded') and feed_number < 4"""
    await changed(control, old)
    for _ in range(40):
        await storage.job_in(control.transactions, JobState.SUCCEEDED)
    await numbered(control, 44)
    assert (await queue(control)).finished_last_minute == 42

    await changed(control, "update outbox set create_time = engine_time() - interval '61 seconds'")
    assert (await queue(control)).finished_last_minute == 0
    await changed(control, "update outbox set create_time = engine_time() - interval '1 day'")
    await storage.job_in(control.transactions, JobState.FAILED)
    await numbered(control, 45)
    assert (await queue(control)).finished_last_minute == 1


async def numbered(control: Control, count: int) -> None:
    """Wait until so many events have their place in the feed, which the service sees to by itself."""
    async with asyncio.timeout(20):
        while True:
            async with control.transactions.begin() as transaction:
                if (await transaction.event_feed.after(0, limit=0)).last == count:
                    return
            await asyncio.sleep(0.05)


async def test_executors_are_counted_for_each_queue_whose_types_they_announce(control: Control) -> None:
    await connect(control, "both", "synthetic", "document_import", "a_type_that_nobody_knows")
    await connect(control, "one", "synthetic")
    gone, busy = await connect(control, "gone", "synthetic"), await connect(control, "busy", "synthetic")
    await storage.a_lease(control.transactions, session=busy)
    for each in (gone, busy):
        await changed(
            control,
            """update executor_sessions set hello_time = engine_time() - interval '41 minutes'
            where incarnation_id = :incarnation_id""",
            incarnation_id=each.incarnation_id,
        )
    assert (await queue(control)).executors == 3
    assert (await queue(control, "import")).executors == 1
    assert (await queue(control, "maintenance")).executors == 0


async def test_credits_are_those_of_the_stream_that_could_take_most(
    control: Control, redis_url: str, redis_prefix: str
) -> None:
    assert not (await queue(control)).HasField("credits")
    async with open_redis(redis_url) as redis:
        streams = LeaseStreams(redis, prefix=redis_prefix)
        await streams.tell_demand("worker-1", {STREAM: 5, OTHER_BAND: 7})
        await streams.tell_demand("worker-2", {STREAM: 4})
    assert (await queue(control)).credits == 9
    assert not (await queue(control, "import")).HasField("credits")


async def test_while_redis_is_away_queues_are_told_without_credits(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    async with (
        cuttable(redis_url) as way,
        control_running(database_url, way.url, redis_prefix) as control,
    ):
        await storage.a_job(control.transactions)
        await way.cut()
        status = await queue(control)
    assert (status.waiting, status.HasField("credits")) == (1, False)


async def test_a_long_stream_is_counted_to_a_limit_and_its_oldest_job_found_all_the_same(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = str(queue_figures._WAITING)
    for limit, small in ((queue_figures.COUNTED_MAX, 5), (queue_figures.COUNTED_MAX + 1, 6)):
        text = re.sub(rf"\b{limit}\b", str(small), text)
    monkeypatch.setattr(queue_figures, "_WAITING", sa.text(text.replace("::", r"\:\:")))
    jobs = [
        await storage.a_job(
            control.transactions, owner=Owner(f"owner-{number % 3}"), priority=40 + number % 2
        )
        for number in range(12)
    ]
    await changed(
        control,
        "update outbox set state = 'pending', available_time = engine_time() + interval '1 day'",
    )
    status = await queue(control)
    assert (status.waiting, status.more_waiting, status.HasField("oldest_due_age")) == (5, True, False)
    due = sa.text("""
        update outbox set available_time = engine_time() - interval '3 hours' where aggregate_id = :job_id""")
    for job_id in jobs:
        async with control.transactions.begin() as transaction:
            await transaction.connection.execute(due, {"job_id": job_id})
            (stream,) = await transaction.queue_figures.waiting()
            assert stream.oldest_due_age is not None
            assert timedelta(hours=3) <= stream.oldest_due_age < timedelta(hours=4)
            undone = sa.text("update outbox set available_time = engine_time() + interval '1 day'")
            await transaction.connection.execute(undone)
