from __future__ import annotations

import asyncio
import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import grpc
import sqlalchemy as sa
from google.protobuf.timestamp_pb2 import Timestamp

from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from shared.storage import tables
from tests.support.control_service import Control, bearing, refused

KEY = "a-key-of-this-test"


def request(input: bytes = b"{}", **fields: Any) -> pb.CreateJobRequest:
    return pb.CreateJobRequest(job_type="synthetic", input=input, **fields)


def at(moment: datetime) -> Timestamp:
    timestamp = Timestamp()
    timestamp.FromDatetime(moment)
    return timestamp


async def count(control: Control, table: sa.Table) -> int:
    async with control.transactions.begin() as transaction:
        found = await transaction.connection.execute(sa.select(sa.func.count()).select_from(table))
        number: int = found.scalar_one()
        return number


async def test_a_created_job_shows_what_was_asked_for(control: Control) -> None:
    soon = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    job = await control.create(
        input=b'{"items": 3}',
        target=job_pb2.Target(type="document", id="d1"),
        run_time=at(soon),
        start_by_time=at(soon + timedelta(hours=1)),
        overrides=pb.JobOverrides(priority=0),
        labels={"course": "biology"},
    )
    assert UUID(job.job_id).version == 7
    assert job.state == job_pb2.JOB_STATE_QUEUED
    assert (job.job_type, job.owner, job.queue, job.priority) == ("synthetic", "local", "drill", 0)
    assert job.target == job_pb2.Target(type="document", id="d1")
    assert dict(job.labels) == {"course": "biology"}
    assert job.next_attempt_time == at(soon)
    assert job.start_by_time == at(soon + timedelta(hours=1))
    assert not job.HasField("error")
    assert job.last_event_number == 1
    assert await control.get(job.job_id) == job


async def test_without_a_key_each_call_creates_a_job(control: Control) -> None:
    assert (await control.create()).job_id != (await control.create()).job_id


async def test_fifty_racing_calls_with_one_key_make_one_job(control: Control) -> None:
    wish = request(b'{"items": 2}', idempotency_key=KEY)
    responses = await asyncio.gather(*(control.stub.CreateJob(wish) for _ in range(50)))
    assert len({each.job.job_id for each in responses}) == 1
    assert Counter(each.replayed for each in responses) == {True: 49, False: 1}
    assert await count(control, tables.jobs) == 1
    assert await count(control, tables.outbox) == 1
    assert await count(control, tables.job_events) == 1


async def test_key_order_and_white_space_do_not_count(control: Control) -> None:
    first = await control.stub.CreateJob(request(b'{"items": 2, "note": "x"}', idempotency_key=KEY))
    again = await control.stub.CreateJob(
        request(b'{\n  "note":"\\u0078",\n  "items":2}', idempotency_key=KEY)
    )
    assert again.replayed
    assert again.job.job_id == first.job.job_id


OTHER_BODIES: list[dict[str, Any]] = [
    {"input": b'{"items": 3}'},
    {"input": b'{"items": 2, "work": "sleeping"}'},
    {"labels": {"a": "b"}},
    {"target": job_pb2.Target(type="t", id="i")},
    {"overrides": pb.JobOverrides(priority=50)},
    {"run_time": Timestamp(seconds=2_000_000_000)},
]


async def test_another_body_under_the_same_key_is_refused_and_names_the_job(control: Control) -> None:
    job = await control.create(input=b'{"items": 2}', idempotency_key=KEY)
    for other in OTHER_BODIES:
        body = {"input": b'{"items": 2}', **other}
        refusal = await refused(control.stub.CreateJob(request(idempotency_key=KEY, **body)))
        assert refusal.code is grpc.StatusCode.ALREADY_EXISTS, other
        assert refusal.reason == "IDEMPOTENCY_KEY_REUSED"
        assert refusal.metadata == {"job_id": job.job_id}
    assert await count(control, tables.jobs) == 1


async def test_a_key_belongs_to_its_owner_and_job_type(guarded_control: Control) -> None:
    control = guarded_control
    wish = request(idempotency_key=KEY)
    ada = await control.stub.CreateJob(wish, metadata=bearing("ada"))
    bob = await control.stub.CreateJob(wish, metadata=bearing("bob"))
    other_type = await control.stub.CreateJob(
        pb.CreateJobRequest(job_type="document_import", input=b'{"text": "a"}', idempotency_key=KEY),
        metadata=bearing("ada"),
    )
    assert len({ada.job.job_id, bob.job.job_id, other_type.job.job_id}) == 3
    assert (ada.job.owner, bob.job.owner) == ("ada", "bob")


async def test_many_jobs_have_an_outcome_each_in_their_order(control: Control) -> None:
    earlier = await control.create(idempotency_key="earlier-key")
    wishes = [
        request(),
        request(b"nonsense"),
        request(idempotency_key="twice-in-a-call"),
        request(idempotency_key="twice-in-a-call"),
        pb.CreateJobRequest(job_type="no_such_type", input=b"{}"),
        request(idempotency_key="earlier-key"),
        request(b'{"items": 9}', idempotency_key="earlier-key"),
        pb.CreateJobRequest(
            job_type="document_import", input=b'{"upload_id": "00000000-0000-7000-8000-000000000001"}'
        ),
        request(idempotency_key="short"),
    ]
    response = await control.stub.CreateJobs(pb.CreateJobsRequest(jobs=wishes))
    made = [each.created if each.HasField("created") else None for each in response.outcomes]
    reasons = [each.error.reason if each.HasField("error") else "" for each in response.outcomes]
    assert reasons[:4] == ["", "INVALID_INPUT", "", ""]
    assert reasons[4:] == ["UNKNOWN_JOB_TYPE", "", "IDEMPOTENCY_KEY_REUSED", "INVALID_INPUT", "INVALID_INPUT"]
    assert made[0] is not None
    assert not made[0].replayed
    assert made[2] is not None
    assert made[3] is not None
    assert (made[2].replayed, made[3].replayed) == (False, True)
    assert made[2].job.job_id == made[3].job.job_id
    assert made[5] is not None
    assert made[5].job.job_id == earlier.job_id
    assert response.outcomes[1].error.field == "input"
    assert response.outcomes[1].error.status_code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert response.outcomes[6].error.job_id == earlier.job_id
    assert response.outcomes[7].error.field == "input.upload_id"
    assert response.outcomes[8].error.field == "idempotency_key"
    assert await count(control, tables.jobs) == 3
    assert await count(control, tables.outbox) == 3


async def test_a_thousand_jobs_fit_into_one_call_and_more_do_not(control: Control) -> None:
    response = await control.stub.CreateJobs(pb.CreateJobsRequest(jobs=[request()] * 1000))
    assert len({each.created.job.job_id for each in response.outcomes}) == 1000
    refusal = await refused(control.stub.CreateJobs(pb.CreateJobsRequest(jobs=[request()] * 1001)))
    assert (refusal.reason, refusal.fields) == ("INVALID_INPUT", ["jobs"])
    refusal = await refused(control.stub.CreateJobs(pb.CreateJobsRequest()))
    assert (refusal.reason, refusal.fields) == ("INVALID_INPUT", ["jobs"])
    assert await count(control, tables.jobs) == 1000


NO_DOCUMENTS = [
    b"",
    b"nonsense",
    b"\xff{}",
    b'{"note": "a\\u0000b"}',
    b'{"duration_seconds": NaN}',
    b'{"duration_seconds": Infinity}',
    b'{"duration_seconds": 1e999}',
    b'{"items": 1, "items": 1}',
    b'{"items": 99999999999999999999}',
    b"[" * 200 + b"]" * 200,
    b"[" * 100_000 + b"]" * 100_000,
    b'{"note": "\\ud800"}',
    b"[]",
    b"7",
    b"null",
]


async def test_an_input_that_is_no_document_is_refused(control: Control) -> None:
    for text in NO_DOCUMENTS:
        for key in (None, KEY):
            refusal = await refused(control.stub.CreateJob(request(text, idempotency_key=key)))
            assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT, text[:40]
            assert (refusal.reason, refusal.fields) == ("INVALID_INPUT", ["input"]), text[:40]
    assert await count(control, tables.idempotency_keys) == 0


async def test_every_field_of_an_input_that_does_not_fit_is_named(control: Control) -> None:
    document = {"items": -1, "no_such_field": 1, "fail_attempts": [1, "x"]}
    refusal = await refused(control.stub.CreateJob(request(json.dumps(document).encode())))
    assert refusal.reason == "INVALID_INPUT"
    assert sorted(refusal.fields) == ["input.fail_attempts[1]", "input.items", "input.no_such_field"]


async def test_an_input_over_its_limit_is_refused_with_a_reason_of_its_own(control: Control) -> None:
    text = b"{}".ljust(1024 * 1024 + 1)
    refusal = await refused(control.stub.CreateJob(request(text)))
    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.reason == "PAYLOAD_TOO_LARGE"
    assert refusal.metadata == {"field": "input", "limit_bytes": "1048576", "actual_bytes": "1048577"}
    assert (await control.create(input=text[:-1])).state == job_pb2.JOB_STATE_QUEUED


async def test_an_unknown_job_type_is_refused(control: Control) -> None:
    refusal = await refused(control.stub.CreateJob(pb.CreateJobRequest(job_type="nobody", input=b"{}")))
    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert (refusal.reason, refusal.metadata) == ("UNKNOWN_JOB_TYPE", {"job_type": "nobody"})
    assert "there are delivery_zip, document_import, " in refusal.message


async def test_overrides_that_the_definition_does_not_allow_are_refused(control: Control) -> None:
    overrides = pb.JobOverrides(credential_mode=job_pb2.CREDENTIAL_MODE_USER_KEY, output_schema_version=7)
    refusal = await refused(control.stub.CreateJob(request(overrides=overrides)))
    assert refusal.fields == ["overrides.credential_mode", "overrides.output_schema_version"]


async def test_only_who_acts_for_others_may_name_another_owner(guarded_control: Control) -> None:
    control = guarded_control
    backend = bearing("backend", "jobs.read", "jobs.write", "jobs.on_behalf")
    made = await control.stub.CreateJob(request(owner="ada"), metadata=backend)
    assert made.job.owner == "ada"
    ada = bearing("ada", "jobs.read", "jobs.write")
    shown = await control.stub.GetJob(pb.GetJobRequest(job_id=made.job.job_id), metadata=ada)
    assert shown.job.owner == "ada"
    async with control.transactions.begin() as transaction:
        created_by = await transaction.connection.execute(sa.select(tables.jobs.c.created_by))
        assert created_by.scalar_one() == "backend"

    refusal = await refused(control.stub.CreateJob(request(owner="bob"), metadata=ada))
    assert refusal.code is grpc.StatusCode.PERMISSION_DENIED
    assert refusal.metadata == {"scope": "jobs.on_behalf"}
    assert (await control.stub.CreateJob(request(owner="ada"), metadata=ada)).job.owner == "ada"


async def test_a_created_job_is_dispatched(control: Control) -> None:
    await control.create()
    async with asyncio.timeout(10):
        while True:
            async with control.transactions.begin() as transaction:
                row = (await transaction.connection.execute(sa.select(tables.outbox))).one()
            if row.state == "delivered":
                break
            await asyncio.sleep(0.02)
    assert row.stream == "drill:synthetic:1.1:2"


async def test_the_trace_context_of_the_call_is_kept_and_any_other_header_is_not(control: Control) -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    for value in (trace, "nonsense"):
        await control.stub.CreateJob(request(), metadata=(("traceparent", value),))
    async with control.transactions.begin() as transaction:
        rows = await transaction.connection.execute(
            sa.select(tables.jobs.c.traceparent).order_by(tables.jobs.c.create_time)
        )
        assert list(rows.scalars()) == [trace, ""]
