"""Live views of many jobs."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any
from uuid import UUID

import grpc
import pytest

from job_api.operations import live_watching
from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.identity import JobId, Owner
from shared.domain.jobs import JobError
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_control_pb2_grpc, job_pb2
from shared.streams.connection import open_redis
from shared.streams.wake_ups import WakeUps
from tests.support import storage
from tests.support.control_service import Control, bearing, control_running, refused
from tests.support.live_views import begun, next_of, shown
from tests.support.watches import beat

SUCCEEDED = AttemptEnd(AttemptOutcome.SUCCEEDED)
FAILED = AttemptEnd(AttemptOutcome.FAILED, storage.FINAL)
LOST = JobError("PROVIDER_TIMEOUT", "the provider took too long", "10.0.0.7 did not answer in 30 s")


@pytest.fixture
async def hinting(redis_url: str, redis_prefix: str) -> Any:
    """Sends hints as a worker does."""
    async with open_redis(redis_url) as redis:
        yield WakeUps(redis, prefix=redis_prefix).jobs_changed


async def test_a_view_shows_jobs_as_they_come_start_and_end(control: Control, hinting: Any) -> None:
    await control.create()
    view = await begun(control)
    job_id = JobId(UUID((await control.create()).job_id))
    assert await shown(view) == (str(job_id), "QUEUED")
    lease = await storage.a_lease(control.transactions, job_id=job_id)
    await hinting([job_id])
    assert await shown(view) == (str(job_id), "RUNNING")
    await beat(control, lease.ref, 40, "page 2")
    await hinting([job_id])
    message = await next_of(view)
    assert (message.job.progress, message.job.progress_message) == (40, "page 2")
    assert message.job == await control.get(job_id)
    await storage.end_attempt(control.transactions, lease.ref, SUCCEEDED)
    await hinting([job_id])
    assert await shown(view) == (str(job_id), "SUCCEEDED")
    view.cancel()


async def test_a_view_by_state_shows_who_enters_and_who_leaves(control: Control, hinting: Any) -> None:
    first = await storage.a_lease(control.transactions)
    running = await begun(control, states=[job_pb2.JOB_STATE_RUNNING])
    failed = await begun(control, states=[job_pb2.JOB_STATE_FAILED])
    second = await storage.a_lease(control.transactions)
    await hinting([first.ref.job_id, second.ref.job_id])
    assert {await shown(running) for _ in range(2)} == {
        (str(first.ref.job_id), "RUNNING"),
        (str(second.ref.job_id), "RUNNING"),
    }
    await storage.end_attempt(control.transactions, first.ref, FAILED)
    await hinting([first.ref.job_id])
    assert await shown(running) == (str(first.ref.job_id), "-FAILED")
    await storage.end_attempt(control.transactions, second.ref, SUCCEEDED)
    await hinting([second.ref.job_id])
    assert await shown(running) == (str(second.ref.job_id), "-SUCCEEDED")
    assert await shown(failed) == (str(first.ref.job_id), "FAILED")
    running.cancel()
    failed.cancel()


async def test_a_job_that_was_listed_and_never_shown_is_told_to_have_left(
    control: Control, hinting: Any
) -> None:
    lease = await storage.a_lease(control.transactions)
    view = await begun(control, states=[job_pb2.JOB_STATE_RUNNING])
    await storage.end_attempt(control.transactions, lease.ref, SUCCEEDED)
    await hinting([lease.ref.job_id])
    assert await shown(view) == (str(lease.ref.job_id), "-SUCCEEDED")
    view.cancel()


async def test_ends_and_creations_are_shown_though_every_hint_was_lost(control: Control) -> None:
    early = await storage.a_lease(control.transactions)
    view = await begun(control)
    jobs = [str(await storage.a_job(control.transactions)) for _ in range(3)]
    assert sorted([await shown(view) for _ in jobs]) == sorted((each, "QUEUED") for each in jobs)
    await storage.end_attempt(control.transactions, early.ref, SUCCEEDED)
    assert await shown(view) == (str(early.ref.job_id), "SUCCEEDED")
    view.cancel()


async def test_a_filter_is_heeded_in_all_its_fields(control: Control, hinting: Any) -> None:
    fits: dict[str, Any] = {
        "target": job_pb2.Target(type="course", id="maths-7"),
        "labels": {"team": "a", "plan": "b"},
    }
    view = await begun(
        control,
        **{**fits, "labels": {"team": "a"}},
        job_type="synthetic",
        queue="drill",
        text="MATHS",
        states=[job_pb2.JOB_STATE_QUEUED, job_pb2.JOB_STATE_CANCELLED],
    )
    await control.create(**{**fits, "labels": {"team": "b"}})
    await control.create(**{**fits, "target": job_pb2.Target(type="course", id="art-1")})
    wanted = await control.create(**fits)
    assert await shown(view) == (wanted.job_id, "QUEUED")
    await control.stub.CancelJob(pb.CancelJobRequest(job_id=wanted.job_id))
    assert await shown(view) == (wanted.job_id, "CANCELLED")
    view.cancel()


async def test_owners_see_their_own_jobs_and_admins_all_with_what_happened_inside(
    guarded_control: Control, hinting: Any
) -> None:
    control = guarded_control
    made = {
        owner: await storage.a_lease(
            control.transactions, job_id=await storage.a_job(control.transactions, owner=Owner(owner))
        )
        for owner in ("bob", "ada")
    }
    ada, bob = bearing("ada", "jobs.read"), bearing("bob", "jobs.read")
    root = bearing("root", "jobs.read", "jobs.admin")
    views = [await begun(control, metadata=each) for each in (ada, bob, root)]
    of_ada = await begun(control, metadata=root, owner="ada")
    for lease in made.values():
        end = AttemptEnd(AttemptOutcome.FAILED, LOST)
        await storage.end_attempt(control.transactions, lease.ref, end)
    await hinting([each.ref.job_id for each in made.values()])
    ids = {owner: str(lease.ref.job_id) for owner, lease in made.items()}
    for view, owner, inside in ((views[0], "ada", ""), (views[1], "bob", ""), (of_ada, "ada", None)):
        message = await next_of(view)
        assert message.job.job_id == ids[owner]
        expected = LOST.internal_message if inside is None else inside
        assert message.job.last_attempt_error.internal_message == expected
    assert {(await shown(views[2]))[0] for _ in ids} == set(ids.values())
    refusal = await refused(
        control.stub.WatchJobs(pb.WatchJobsRequest(filter=pb.JobFilter(owner="ada")), metadata=bob)
    )
    assert refusal.code is grpc.StatusCode.PERMISSION_DENIED
    assert refusal.metadata == {"scope": "jobs.admin"}
    for view in (*views, of_ada):
        view.cancel()


@pytest.mark.parametrize(
    ("fields", "at_fault"),
    [
        ({"states": [99]}, "filter.states[0]"),
        ({"states": [job_pb2.JOB_STATE_UNSPECIFIED]}, "filter.states[0]"),
        ({"job_type": "a" * 65}, "filter.job_type"),
        ({"queue": "a\0"}, "filter.queue"),
        ({"text": "ab"}, "filter.text"),
        ({"text": "a" * 101}, "filter.text"),
        ({"batch_id": "nonsense"}, "filter.batch_id"),
        ({"target": job_pb2.Target(id="a")}, "filter.target.type"),
        ({"labels": {str(number): "" for number in range(33)}}, "filter.labels"),
        ({"owner": "a" * 201}, "filter.owner"),
    ],
)
async def test_a_filter_that_is_malformed_is_refused_by_its_field(
    control: Control, fields: dict[str, Any], at_fault: str
) -> None:
    refusal = await refused(control.stub.WatchJobs(pb.WatchJobsRequest(filter=pb.JobFilter(**fields))))
    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert (refusal.reason, refusal.fields) == ("INVALID_INPUT", [at_fault])


async def test_a_view_with_too_much_to_show_is_ended(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_watching, "WAITING_MAX", 2)
    view = await begun(control)
    async with control.transactions.begin() as transaction:
        await transaction.creation.create_jobs([storage.new_job() for _ in range(3)])
    message = await next_of(view)
    assert message.ended.reason == pb.WATCH_END_REASON_SLOW
    assert await view.read() is grpc.aio.EOF
    monkeypatch.undo()  # the next one may be shown the same three: the poll looks back a little way
    again = await begun(control)
    await control.create()
    assert (await shown(again))[1] == "QUEUED"
    again.cancel()


async def test_a_quiet_view_says_that_it_lives(database_url: str, redis_url: str, redis_prefix: str) -> None:
    async with control_running(
        database_url, redis_url, redis_prefix, watch={"keep_alive_seconds": 0.05}
    ) as control:
        view = await begun(control)
        for _ in range(3):
            assert (await next_of(view)).HasField("keep_alive")
        view.cancel()


async def test_a_stopping_service_ends_its_views(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    async with AsyncExitStack() as outlasting:
        async with control_running(database_url, redis_url, redis_prefix) as control:
            channel = await outlasting.enter_async_context(grpc.aio.insecure_channel(control.opened.address))
            view = job_control_pb2_grpc.JobControlStub(channel).WatchJobs(pb.WatchJobsRequest())
            assert (await next_of(view)).HasField("began")
        assert (await next_of(view)).ended.reason == pb.WATCH_END_REASON_DRAINING
        assert await view.read() is grpc.aio.EOF
        assert await view.code() is grpc.StatusCode.OK
