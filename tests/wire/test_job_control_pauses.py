"""Pause and Resume: by operators, of queues and job types that exist, as often as they like."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
import sqlalchemy as sa

from shared.domain.identity import JobId
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import operation_pb2
from shared.streams.connection import open_redis
from shared.streams.lease_streams import LeaseStreams
from tests.support import storage
from tests.support.control_service import Control, bearing, refused
from tests.support.limited import claim_all
from tests.support.storage import STREAM

THINGS = [{"queue": "drill"}, {"job_type": "synthetic"}]


async def pause(control: Control, **fields: Any) -> operation_pb2.Pause:
    response: pb.PauseResponse = await control.stub.Pause(pb.PauseRequest(**fields))
    return response.pause


async def resume(control: Control, **fields: Any) -> float:
    """Resume, and return the seconds that it was paused."""
    response: pb.ResumeResponse = await control.stub.Resume(pb.ResumeRequest(**fields))
    return response.paused_time.ToTimedelta().total_seconds()


async def pauses_of_queues(control: Control) -> dict[str, str]:
    page: pb.ListQueuesResponse = await control.stub.ListQueues(pb.ListQueuesRequest())
    return {each.queue: each.pause.note for each in page.queues if each.HasField("pause")}


@pytest.mark.parametrize("thing", THINGS, ids=lambda thing: next(iter(thing)))
async def test_nothing_of_what_is_paused_is_leased_and_all_of_it_goes_on_when_resumed(
    control: Control, redis_url: str, redis_prefix: str, thing: dict[str, str]
) -> None:
    session = await storage.a_session(control.transactions)
    told = await pause(control, note="the disk is full", **thing)
    assert (told.subject, told.note) == ("local", "the disk is full")

    job_id = JobId(storage.new_job().job_id)
    await storage.a_job(control.transactions, job_id=job_id)
    assert await claim_all(control.transactions, session, [job_id], None) == []

    assert await resume(control, **thing) > 0
    async with open_redis(redis_url) as redis, asyncio.timeout(10):
        streams = LeaseStreams(redis, prefix=redis_prefix)
        while not (await streams.depths([STREAM]))[STREAM].length:  # noqa: ASYNC110 - Redis has no event
            await asyncio.sleep(0.01)
    assert len(await claim_all(control.transactions, session, [job_id], None)) == 1


async def test_the_first_pause_stays_and_asking_again_changes_nothing(guarded_control: Control) -> None:
    stub = guarded_control.stub
    ada, bob = bearing("ada", "jobs.admin"), bearing("bob", "jobs.admin")
    first = await stub.Pause(pb.PauseRequest(queue="drill", note="one"), metadata=ada)
    second = await stub.Pause(pb.PauseRequest(queue="drill", note="two"), metadata=bob)
    assert first == second
    assert (first.pause.subject, first.pause.note) == ("ada", "one")

    spans = [
        (await stub.Resume(pb.ResumeRequest(queue="drill"), metadata=bob)).paused_time.ToTimedelta()
        for _ in range(2)
    ]
    assert spans[0].total_seconds() > 0
    assert spans[1].total_seconds() == 0

    again = await stub.Pause(pb.PauseRequest(queue="drill", note="two"), metadata=bob)
    assert (again.pause.subject, again.pause.note) == ("bob", "two")


async def test_queues_and_job_types_of_one_name_are_paused_each_for_itself(control: Control) -> None:
    await pause(control, job_type="image_matting", note="the type")
    assert await pauses_of_queues(control) == {}
    page: pb.ListQueuesResponse = await control.stub.ListQueues(pb.ListQueuesRequest())
    of_types = {each.queue: each.job_type_pauses for each in page.queues if each.job_type_pauses}
    assert {queue: {name: each.note for name, each in told.items()} for queue, told in of_types.items()} == {
        "image_matting": {"image_matting": "the type"}
    }
    await pause(control, queue="image_matting", note="the queue")
    assert await pauses_of_queues(control) == {"image_matting": "the queue"}

    assert await resume(control, job_type="image_matting") > 0
    assert await pauses_of_queues(control) == {"image_matting": "the queue"}
    assert await resume(control, queue="image_matting") > 0
    assert await pauses_of_queues(control) == {}


async def test_each_pause_and_each_end_of_one_leaves_one_record(guarded_control: Control) -> None:
    stub, root = guarded_control.stub, bearing("root", "jobs.admin")
    for _ in range(2):
        await stub.Pause(pb.PauseRequest(queue="drill"), metadata=root)
        await stub.Pause(pb.PauseRequest(job_type="synthetic"), metadata=root)
    for _ in range(2):
        await stub.Resume(pb.ResumeRequest(queue="drill"), metadata=root)
        await stub.Resume(pb.ResumeRequest(job_type="synthetic"), metadata=root)
    listed = await stub.ListAuditRecords(pb.ListAuditRecordsRequest(), metadata=root)
    assert [(each.subject, each.action) for each in listed.records] == [
        ("root", "job_type.resume"),
        ("root", "queue.resume"),
        ("root", "job_type.pause"),
        ("root", "queue.pause"),
    ]


async def test_what_does_not_exist_can_be_neither_paused_nor_resumed(control: Control) -> None:
    for method, request in ((control.stub.Pause, pb.PauseRequest), (control.stub.Resume, pb.ResumeRequest)):
        refusal = await refused(method(request(queue="nowhere")))
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
        assert (refusal.reason, refusal.fields) == ("INVALID_INPUT", ["queue"])
        assert "drill" in refusal.message

        refusal = await refused(method(request(job_type="nothing")))
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
        assert (refusal.reason, refusal.metadata) == ("UNKNOWN_JOB_TYPE", {"job_type": "nothing"})


async def test_what_a_deployment_has_dropped_can_still_be_resumed(control: Control) -> None:
    async with control.transactions.begin() as transaction:
        await transaction.connection.execute(
            sa.text(
                "insert into pauses (kind, name, subject, note, pause_time)"
                " values ('queue', 'dropped', 'root', '', engine_time() - interval '1 hour')"
            )
        )
    assert await resume(control, queue="dropped") >= 3600
    assert (await refused(control.stub.Resume(pb.ResumeRequest(queue="dropped")))).fields == ["queue"]


@pytest.mark.parametrize(
    ("fields", "at_fault"),
    [
        ({}, ["subject"]),
        ({"queue": ""}, ["queue"]),
        ({"queue": "q" * 65}, ["queue"]),
        ({"queue": "dri\0ll"}, ["queue"]),
        ({"job_type": ""}, ["job_type"]),
        ({"job_type": "t" * 65}, ["job_type"]),
        ({"job_type": "syn\0thetic"}, ["job_type"]),
    ],
)
async def test_malformed_names_are_refused(
    control: Control, fields: dict[str, str], at_fault: list[str]
) -> None:
    for method, request in ((control.stub.Pause, pb.PauseRequest), (control.stub.Resume, pb.ResumeRequest)):
        refusal = await refused(method(request(**fields)))
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
        assert (refusal.reason, refusal.fields) == ("INVALID_INPUT", at_fault)


async def test_a_note_has_200_characters_at_most(control: Control) -> None:
    assert (await pause(control, queue="drill", note="é" * 200)).note == "é" * 200
    for note in ("é" * 201, "a\0b"):
        refusal = await refused(control.stub.Pause(pb.PauseRequest(queue="drill", note=note)))
        assert (refusal.reason, refusal.fields) == ("INVALID_INPUT", ["note"])
    refusal = await refused(control.stub.Pause(pb.PauseRequest(note="x" * 201)))
    assert refusal.fields == ["subject", "note"]


async def test_only_admins_pause_and_resume(guarded_control: Control) -> None:
    stub = guarded_control.stub
    owner = bearing("ada", "jobs.read", "jobs.write", "jobs.on_behalf", "jobs.execute")
    for call in (
        stub.Pause(pb.PauseRequest(queue="drill"), metadata=owner),
        stub.Resume(pb.ResumeRequest(queue="drill"), metadata=owner),
    ):
        refusal = await refused(call)
        assert refusal.code is grpc.StatusCode.PERMISSION_DENIED
        assert refusal.metadata == {"scope": "jobs.admin"}
