"""Creations of many tasks that share calls: who goes with whom, and who is told what."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import UUID

import grpc

from job_api.client import AsyncClient, CallFailed, JobId, JobView, errors
from job_api.client.async_calls import AsyncPace
from tests.support.control_service import Control
from tests.support.scripted_control import JOB
from tests.support.scripted_streams import ScriptedServicer, aborting, playing, serving

JOB_ID = JobId(UUID(JOB))
UNAVAILABLE = aborting(grpc.StatusCode.UNAVAILABLE, "going away")


async def _at_once(_: float) -> None:
    await asyncio.sleep(0)


@asynccontextmanager
async def gathering(
    servicer: ScriptedServicer, *, within: timedelta = timedelta(seconds=5)
) -> AsyncIterator[AsyncClient]:
    """A client that waits for no time between its tries."""
    with serving(servicer) as address:
        channel = grpc.aio.insecure_channel(address)
        pace = AsyncPace(sleep=_at_once)
        async with AsyncClient.over(channel, timeout=within, pace=pace, gathering=True) as client:
            yield client


def creations(client: AsyncClient, count: int) -> list[asyncio.Task[JobView]]:
    return [asyncio.create_task(client.create_job("synthetic", {"n": n})) for n in range(count)]


async def until_sent(servicer: ScriptedServicer) -> None:
    assert await asyncio.to_thread(servicer.waiting.wait, 5)


async def test_one_alone_goes_alone_and_at_once() -> None:
    servicer = playing()
    async with gathering(servicer) as client:
        assert (await client.create_job("synthetic", {})).job_id == JOB_ID

    assert (len(servicer.created), len(servicer.shared)) == (1, 0)


async def test_those_of_one_moment_go_together_in_calls_of_bounded_size_and_in_order() -> None:
    servicer = playing()
    async with gathering(servicer) as client:
        await asyncio.gather(*creations(client, 500))

    sent = sorted(servicer.shared, key=lambda call: int(call.jobs[0].input[6:-1]))
    assert [len(call.jobs) for call in sent] == [200, 200, 100]
    inputs = [job.input for call in sent for job in call.jobs]
    assert inputs == [b'{"n": %d}' % n for n in range(500)]


async def test_large_inputs_go_in_more_calls() -> None:
    servicer = playing()
    async with gathering(servicer) as client:
        text = "x" * (1 << 20)
        await asyncio.gather(*(client.create_job("synthetic", {"text": text}) for _ in range(9)))

    assert sorted(len(call.jobs) for call in servicer.shared) == [3, 3, 3]


async def test_a_shared_call_is_tried_again_under_the_same_keys() -> None:
    servicer = playing(refusals=[UNAVAILABLE, UNAVAILABLE])
    async with gathering(servicer) as client:
        await asyncio.gather(*creations(client, 5))

    assert len(servicer.shared) == 3
    keys = [[job.idempotency_key for job in call.jobs] for call in servicer.shared]
    assert keys[0] == keys[1] == keys[2]
    assert len(set(keys[0])) == 5


async def test_a_shared_call_that_fails_fails_for_each_of_its_creations() -> None:
    servicer = playing(refusals=[aborting(grpc.StatusCode.INTERNAL, "internal error, ref 12")])
    async with gathering(servicer) as client:
        outcomes = await asyncio.gather(*creations(client, 3), return_exceptions=True)

        assert [str(each) for each in outcomes] == ["INTERNAL: internal error, ref 12"] * 3
        assert (await client.create_job("synthetic", {})).job_id == JOB_ID


async def test_one_that_is_cancelled_before_it_is_sent_is_left_out_and_harms_no_other() -> None:
    servicer = playing()
    async with gathering(servicer) as client:
        gone, *stayed = creations(client, 3)
        await asyncio.sleep(0)  # all have begun to wait
        gone.cancel()
        await asyncio.gather(*stayed)

    assert [[job.input for job in call.jobs] for call in servicer.shared] == [[b'{"n": 1}', b'{"n": 2}']]


async def test_one_that_is_cancelled_after_it_was_sent_harms_no_other() -> None:
    servicer = playing(holding=True)
    async with gathering(servicer) as client:
        gone, *stayed = creations(client, 3)
        await until_sent(servicer)
        gone.cancel()
        servicer.released.set()

        assert [job.job_id for job in await asyncio.gather(*stayed)] == [JOB_ID, JOB_ID]
    assert gone.cancelled()


async def test_a_service_that_does_not_answer_is_given_up_at_the_deadline() -> None:
    async with gathering(playing(holding=True), within=timedelta(seconds=0.3)) as client:
        outcomes = await asyncio.gather(*creations(client, 3), return_exceptions=True)

    assert all(isinstance(each, CallFailed) and each.status == "DEADLINE_EXCEEDED" for each in outcomes)


async def test_a_closed_client_tells_those_who_wait_and_leaves_no_task() -> None:
    servicer = playing(holding=True)
    async with gathering(servicer) as client:
        before = asyncio.all_tasks()
        waiting = creations(client, 1_000)
        await until_sent(servicer)
        await client.close()
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)

        assert {str(each) for each in outcomes} == {"CANCELLED: the client is closed"}
        async with asyncio.timeout(5):
            while more := asyncio.all_tasks() - before:
                await asyncio.wait(more)


async def test_each_has_an_outcome_of_its_own_and_its_error_is_whole(control: Control) -> None:
    async with AsyncClient(control.opened.address, gathering=True) as client:
        first = await client.create_job("synthetic", {"items": 1}, idempotency_key="order-4711")
        outcomes = await asyncio.gather(
            client.create_job("synthetic", {"items": 2}),
            client.create_job("synthetic", {"items": -1}),
            client.create_job("no_such_type", {}),
            client.create_job("synthetic", {"items": 2}, idempotency_key="order-4711"),
            client.create_job("synthetic", {"items": 1}, idempotency_key="order-4711"),
            return_exceptions=True,
        )

    created, invalid, unknown, reused, replayed = outcomes
    assert isinstance(created, JobView)
    assert not created.replayed
    assert isinstance(invalid, errors.InvalidInput)
    assert [each.field for each in invalid.violations] == ["input.items"]
    assert isinstance(unknown, errors.UnknownJobType)
    assert isinstance(reused, errors.IdempotencyKeyReused)
    assert reused.job_id == first.job_id
    assert isinstance(replayed, JobView)
    assert (replayed.job_id, replayed.replayed) == (first.job_id, True)


async def test_fifty_under_one_key_are_one_job(control: Control) -> None:
    async with AsyncClient(control.opened.address, gathering=True) as client:
        jobs = await asyncio.gather(
            *(client.create_job("synthetic", {}, idempotency_key="order-4711") for _ in range(50))
        )

    assert len({job.job_id for job in jobs}) == 1
    assert [job.replayed for job in jobs].count(False) == 1
