from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any
from uuid import UUID

import grpc
import structlog

from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.identity import JobId
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_control_pb2_grpc
from shared.streams.connection import open_redis
from shared.streams.wake_ups import WakeUps
from tests.support import storage
from tests.support.control_service import Control, control_running
from tests.support.watches import (
    add_pieces,
    beat,
    next_change,
    next_of,
    rest_of,
    told,
    told_once,
    until_ended,
)

FAILED = AttemptEnd(AttemptOutcome.FAILED, storage.RETRYABLE)
SUCCEEDED = AttemptEnd(AttemptOutcome.SUCCEEDED)


async def test_a_live_watch_tells_events_progress_and_pieces_as_they_come(
    control: Control, redis_url: str, redis_prefix: str
) -> None:
    job = await control.create()
    watch = control.watch(job.job_id)
    assert told_once(await next_of(watch)) == "created 0"
    lease = await storage.a_lease(control.transactions, job_id=JobId(UUID(job.job_id)))
    assert told_once(await next_of(watch)) == "started 1"
    await add_pieces(control, lease, 1)
    async with open_redis(redis_url) as redis:
        await WakeUps(redis, prefix=redis_prefix).jobs_changed([lease.ref.job_id])
    assert told_once(await next_of(watch)) == "piece 1.1"
    await beat(control, lease.ref, 40, "page 2")
    message = await next_of(watch)
    assert message.progress == pb.JobProgress(attempt=1, progress=40, progress_message="page 2")
    await control.stub.CancelJob(pb.CancelJobRequest(job_id=job.job_id))
    assert told_once(await next_of(watch)) == "cancel_requested 1"
    async with control.transactions.begin() as transaction:
        await transaction.leases.record_cancels_seen([lease.ref])
    assert told_once(await next_of(watch)) == "cancel_seen 1"
    await storage.end_attempt(control.transactions, lease.ref, AttemptEnd(AttemptOutcome.CANCELLED))
    assert [told_once(await next_of(watch)) for _ in range(3)] == [
        "attempt_ended 1",
        "cancelled 1",
        "ended FINISHED",
    ]
    assert await watch.read() is grpc.aio.EOF


async def test_a_hint_makes_a_watch_quicker_than_the_poll(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    async with control_running(
        database_url, redis_url, redis_prefix, watch={"poll_seconds": 3600.0}
    ) as control:
        job = await control.create()
        watch = control.watch(job.job_id)
        assert told_once(await next_of(watch)) == "created 0"
        await control.stub.CancelJob(pb.CancelJobRequest(job_id=job.job_id))
        assert told_once(await next_of(watch)) == "cancelled 0"


async def test_of_quick_progress_the_latest_is_told_and_the_same_is_not_told_twice(
    control: Control,
) -> None:
    lease = await storage.a_lease(control.transactions)
    watch = control.watch(lease.ref.job_id)
    assert [told_once(await next_of(watch)) for _ in range(2)] == ["created 0", "started 1"]
    for progress in range(1, 91):
        await beat(control, lease.ref, progress)
    values = list[int]()
    while not values or values[-1] != 90:
        values.append((await next_of(watch)).progress.progress)
    assert values == sorted(set(values))
    await storage.end_attempt(control.transactions, lease.ref, SUCCEEDED)
    assert [told_once(await next_of(watch)) for _ in range(2)] == ["succeeded 1", "ended FINISHED"]


async def test_a_new_watcher_of_a_running_attempt_hears_its_progress(control: Control) -> None:
    lease = await storage.a_lease(control.transactions)
    await beat(control, lease.ref, 30)
    watch = control.watch(lease.ref.job_id, after_event_number=2)
    assert told_once(await next_of(watch)) == "30 %"
    watch.cancel()


async def test_a_quiet_watch_says_that_it_lives(database_url: str, redis_url: str, redis_prefix: str) -> None:
    async with control_running(
        database_url, redis_url, redis_prefix, watch={"keep_alive_seconds": 0.05}
    ) as control:
        job = await control.create()
        watch = control.watch(job.job_id)
        first = await next_change(watch)
        for _ in range(3):
            message = await next_of(watch)
            assert told_once(message) == "keep-alive"
            assert message.cursor == first.cursor
        watch.cancel()


async def test_a_watcher_that_does_not_read_is_ended_and_resumes_without_gap_or_repeat(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    watching = {"slow_seconds": 0.2, "poll_seconds": 0.02, "keep_alive_seconds": 0.05}
    with structlog.testing.capture_logs() as lines:
        async with control_running(database_url, redis_url, redis_prefix, watch=watching) as control:
            await watch_slowly(control, lines)


async def watch_slowly(control: Control, lines: Sequence[Mapping[str, Any]]) -> None:
    lease = await storage.a_lease(control.transactions)
    for start in range(1, 401, 50):
        await add_pieces(control, lease, *range(start, start + 50), text="a" * 60_000)
    watch = control.watch(lease.ref.job_id)
    assert told_once(await next_change(watch)) == "created 0"
    ticking = control.watch((await control.create()).job_id)
    while not any(each["event"] == "watch.too_slow" for each in lines):
        await next_of(ticking)
    ticking.cancel()
    messages = list[pb.WatchJobResponse]()
    while not (messages and messages[-1].HasField("ended")):
        messages.append(await next_of(watch))
    assert told_once(messages[-1]) == "ended SLOW"
    await storage.end_attempt(control.transactions, lease.ref, SUCCEEDED)
    rest = await rest_of(control.watch(lease.ref.job_id, cursor=messages[-1].cursor))
    numbered = [each for each in [*told(messages), *rest] if each.startswith("piece")]
    assert numbered == [f"piece 1.{n}" for n in range(1, 401)]


async def test_a_stopping_service_tells_its_watchers_to_go_elsewhere(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    async with AsyncExitStack() as outlasting:
        async with control_running(database_url, redis_url, redis_prefix) as control:
            channel = await outlasting.enter_async_context(grpc.aio.insecure_channel(control.opened.address))
            job = await control.create()
            request = pb.WatchJobRequest(job_id=job.job_id)
            watches = [job_control_pb2_grpc.JobControlStub(channel).WatchJob(request) for _ in range(3)]
            for watch in watches:
                assert told_once(await next_of(watch)) == "created 0"
        for watch in watches:
            assert await rest_of(watch) == ["ended DRAINING"]
            assert await watch.code() is grpc.StatusCode.OK


async def test_a_watcher_that_goes_away_is_forgotten(control: Control) -> None:
    job = await control.create()
    for _ in range(50):
        watch = control.watch(job.job_id)
        assert told_once(await next_of(watch)) == "created 0"
        watch.cancel()
    await control.stub.CancelJob(pb.CancelJobRequest(job_id=job.job_id))
    assert told(await until_ended(control.watch(job.job_id)))[-1] == "ended FINISHED"
