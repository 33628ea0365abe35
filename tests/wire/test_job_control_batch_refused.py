"""What the calls about batches refuse, and to whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.jobs import JobError
from shared.gen.baton.v1 import batch_pb2, job_pb2
from shared.gen.baton.v1 import job_control_pb2 as pb
from tests.support import batch_wire
from tests.support.batch_wire import NO_BATCH
from tests.support.batches import SUCCESS
from tests.support.control_service import Control, bearing, control_running, refused

SECRETIVE = AttemptEnd(AttemptOutcome.FAILED, JobError("INPUT_BROKEN", "no image in it", "at 10.0.0.7"))
EXPORTED = batch_pb2.BATCH_STATE_EXPORTED
LONG = "x" * 65

ABOUT_ONE: dict[str, Callable[[str], Any]] = {
    "GetBatch": lambda batch_id: pb.GetBatchRequest(batch_id=batch_id),
    "ListBatchItems": lambda batch_id: pb.ListBatchItemsRequest(batch_id=batch_id),
    "CancelBatch": lambda batch_id: pb.CancelBatchRequest(batch_id=batch_id),
    "RetryBatchItems": lambda batch_id: pb.RetryBatchItemsRequest(batch_id=batch_id),
    "SelectBatchItems": lambda batch_id: pb.SelectBatchItemsRequest(batch_id=batch_id, items=[1]),
    "AdvanceBatch": lambda batch_id: pb.AdvanceBatchRequest(batch_id=batch_id, state=EXPORTED),
    "WatchBatch": lambda batch_id: pb.WatchBatchRequest(batch_id=batch_id),
}
"""Calls about one batch, otherwise right."""


@pytest.mark.parametrize("method", list(ABOUT_ONE))
async def test_a_batch_of_another_owner_does_not_exist(guarded_control: Control, method: str) -> None:
    control = guarded_control
    scopes = ("jobs.read", "jobs.write")
    ada, bob = bearing("ada", *scopes), bearing("bob", *scopes)
    theirs = await batch_wire.create(control, metadata=ada)
    before = await batch_wire.shown(control, theirs, metadata=ada)
    for asked in (theirs.batch_id, NO_BATCH):
        refusal = await refused(getattr(control.stub, method)(ABOUT_ONE[method](asked), metadata=bob))
        assert refusal.code is grpc.StatusCode.NOT_FOUND
        assert (refusal.reason, refusal.metadata) == ("BATCH_NOT_FOUND", {"batch_id": asked})
    assert await batch_wire.shown(control, theirs, metadata=ada) == before


@pytest.mark.parametrize("method", list(ABOUT_ONE))
async def test_an_id_that_is_none_is_refused_by_its_field(control: Control, method: str) -> None:
    for batch_id in ("", "nonsense", "é" * 36, NO_BATCH + "0", f"{{{NO_BATCH}}}"):
        refusal = await refused(getattr(control.stub, method)(ABOUT_ONE[method](batch_id)))
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
        assert (refusal.reason, refusal.fields) == ("INVALID_INPUT", ["batch_id"])


async def test_an_admin_sees_all_batches_and_what_happened_inside(guarded_control: Control) -> None:
    control = guarded_control
    ada, bob = bearing("ada", "jobs.read", "jobs.write"), bearing("bob", "jobs.read", "jobs.write")
    root = bearing("root", "jobs.read", "jobs.write", "jobs.admin")
    batch = await batch_wire.create(control, 2, metadata=ada)
    await batch_wire.end(control, batch, {2: SECRETIVE})

    for caller, inside in ((ada, ""), (root, "at 10.0.0.7")):
        (failed,) = (await batch_wire.shown(control, batch, metadata=caller)).failed_items
        assert (failed.job.error.message, failed.job.error.internal_message) == ("no image in it", inside)
        request = pb.ListBatchItemsRequest(batch_id=batch.batch_id)
        listed = await control.stub.ListBatchItems(request, metadata=caller)
        assert listed.items[1].job.error.internal_message == inside
        watch = batch_wire.watch(control, batch, after_event_number=2, metadata=caller)
        assert (await batch_wire.next_update(watch)).event.error.internal_message == inside
        watch.cancel()
        for owner, count in (("", 1), ("ada", 1)):
            page = await control.stub.ListBatches(pb.ListBatchesRequest(owner=owner), metadata=caller)
            assert len(page.batches) == count
    assert not (await control.stub.ListBatches(pb.ListBatchesRequest(), metadata=bob)).batches
    refusal = await refused(control.stub.ListBatches(pb.ListBatchesRequest(owner="ada"), metadata=bob))
    assert (refusal.code, refusal.metadata) == (grpc.StatusCode.PERMISSION_DENIED, {"scope": "jobs.admin"})


async def test_only_who_may_creates_for_another_owner(guarded_control: Control) -> None:
    request = pb.CreateBatchRequest(job_type="synthetic", inputs=[b"{}"], owner="ada")
    refusal = await refused(
        guarded_control.stub.CreateBatch(request, metadata=bearing("bob", "jobs.write", "jobs.admin"))
    )
    assert (refusal.code, refusal.metadata) == (
        grpc.StatusCode.PERMISSION_DENIED,
        {"scope": "jobs.on_behalf"},
    )


def a_request(**fields: Any) -> pb.CreateBatchRequest:
    return pb.CreateBatchRequest(**{"job_type": "synthetic", "inputs": [b"{}"], **fields})


MALFORMED: list[tuple[str, Any, list[str]]] = [
    ("CreateBatch", a_request(inputs=[]), ["inputs"]),
    ("CreateBatch", a_request(inputs=[b"{}"] * 10_001), ["inputs"]),
    ("CreateBatch", a_request(job_type=""), ["job_type"]),
    ("CreateBatch", a_request(job_type=LONG), ["job_type"]),
    ("CreateBatch", a_request(idempotency_key="short"), ["idempotency_key"]),
    (
        "RetryBatchItems",
        pb.RetryBatchItemsRequest(batch_id=NO_BATCH, idempotency_key="a key with spaces"),
        ["idempotency_key"],
    ),
    ("CreateBatch", a_request(title="a\0b"), ["title"]),
    ("CreateBatch", a_request(title="x" * 201), ["title"]),
    ("CreateBatch", a_request(target=job_pb2.Target(type="t")), ["target.id"]),
    ("CreateBatch", a_request(overrides=pb.JobOverrides(priority=101)), ["overrides.priority"]),
    (
        "CreateBatch",
        a_request(overrides=pb.JobOverrides(output_schema_version=9)),
        ["overrides.output_schema_version"],
    ),
    ("CreateBatch", a_request(labels={"": "a"}), ["labels (a key)"]),
    ("CreateBatch", a_request(owner="\n"), ["owner"]),
    (
        "CreateBatch",
        a_request(job_type="", title="\0", labels={"": "a"}),
        ["job_type", "title", "labels (a key)"],
    ),
    ("CreateBatch", a_request(inputs=[b"{}", b"{", b"[]", b"\xff"]), ["inputs[1]", "inputs[2]", "inputs[3]"]),
    (
        "CreateBatch",
        a_request(inputs=[b"{}", b'{"items": -1}', b'{"no": 1}']),
        ["inputs[1].items", "inputs[2].no"],
    ),
    (
        "CreateBatch",
        a_request(inputs=[b'{"items": 1, "items": 1}', b'{"items": NaN}']),
        ["inputs[0]", "inputs[1]"],
    ),
    ("EstimateBatch", pb.EstimateBatchRequest(job_type="synthetic"), ["size"]),
    ("EstimateBatch", pb.EstimateBatchRequest(job_type="synthetic", size=10_001), ["size"]),
    ("EstimateBatch", pb.EstimateBatchRequest(job_type=LONG, size=1), ["job_type"]),
    ("ListBatches", pb.ListBatchesRequest(states=[0]), ["states[0]"]),  # type: ignore[list-item]
    ("ListBatches", pb.ListBatchesRequest(states=[1, 99]), ["states[1]"]),  # type: ignore[list-item]
    ("ListBatches", pb.ListBatchesRequest(job_type=LONG), ["job_type"]),
    ("ListBatches", pb.ListBatchesRequest(create_time_from=Timestamp(nanos=-1)), ["create_time_from"]),
    ("ListBatches", pb.ListBatchesRequest(create_time_to=Timestamp(seconds=2**62)), ["create_time_to"]),
    ("ListBatches", pb.ListBatchesRequest(target=job_pb2.Target(id="i")), ["target.type"]),
    ("ListBatches", pb.ListBatchesRequest(owner="\n"), ["owner"]),
    ("ListBatches", pb.ListBatchesRequest(text="ab"), ["text"]),
    ("ListBatches", pb.ListBatchesRequest(text="x" * 101), ["text"]),
    ("ListBatches", pb.ListBatchesRequest(page_size=-1), ["page_size"]),
    ("ListBatches", pb.ListBatchesRequest(page_size=1_001), ["page_size"]),
    ("ListBatchItems", pb.ListBatchItemsRequest(batch_id=NO_BATCH, states=[99]), ["states[0]"]),  # type: ignore[list-item]
    ("ListBatchItems", pb.ListBatchItemsRequest(batch_id=NO_BATCH, page_size=-1), ["page_size"]),
    ("RetryBatchItems", pb.RetryBatchItemsRequest(batch_id=NO_BATCH, items=[1, 0]), ["items[1]"]),
    ("RetryBatchItems", pb.RetryBatchItemsRequest(batch_id=NO_BATCH, items=[10_001]), ["items[0]"]),
    ("RetryBatchItems", pb.RetryBatchItemsRequest(batch_id=NO_BATCH, items=[1] * 10_001), ["items"]),
    ("SelectBatchItems", pb.SelectBatchItemsRequest(batch_id=NO_BATCH), ["items"]),
    ("SelectBatchItems", pb.SelectBatchItemsRequest(batch_id=NO_BATCH, items=[0]), ["items[0]"]),
    ("AdvanceBatch", pb.AdvanceBatchRequest(batch_id=NO_BATCH), ["state"]),
    (
        "AdvanceBatch",
        pb.AdvanceBatchRequest(batch_id=NO_BATCH, state=batch_pb2.BATCH_STATE_FAILED),
        ["state"],
    ),
    ("AdvanceBatch", pb.AdvanceBatchRequest(batch_id="x", state=99), ["batch_id", "state"]),  # type: ignore[arg-type]
    (
        "WatchBatch",
        pb.WatchBatchRequest(batch_id=NO_BATCH, after_event_number=2**64 - 1),
        ["after_event_number"],
    ),
]


async def test_what_is_malformed_is_refused_by_its_fields_and_creates_nothing(control: Control) -> None:
    for method, request, fields in MALFORMED:
        refusal = await refused(getattr(control.stub, method)(request))
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT, (method, fields)
        assert (refusal.reason, refusal.fields) == ("INVALID_INPUT", fields)
    assert not (await control.stub.ListBatches(pb.ListBatchesRequest())).batches
    assert not (await control.stub.ListJobs(pb.ListJobsRequest())).jobs


async def test_of_many_inputs_at_fault_as_many_are_named_as_a_person_mends(control: Control) -> None:
    refusal = await refused(control.stub.CreateBatch(a_request(inputs=[b"{"] * 10_000)))
    assert refusal.fields[:2] == ["inputs[0]", "inputs[1]"]
    assert len(refusal.fields) <= 50


async def test_an_unknown_job_type_and_an_input_that_is_too_large_have_reasons_of_their_own(
    control: Control,
) -> None:
    for call in (
        control.stub.CreateBatch(a_request(job_type="no_such_type")),
        control.stub.EstimateBatch(pb.EstimateBatchRequest(job_type="no_such_type", size=1)),
    ):
        refusal = await refused(call)
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
        assert (refusal.reason, refusal.metadata) == ("UNKNOWN_JOB_TYPE", {"job_type": "no_such_type"})
    large = b'{"text": "%s"}' % (b"x" * 1_048_576)
    refusal = await refused(control.stub.CreateBatch(a_request(inputs=[b"{}", large])))
    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert (refusal.reason, refusal.metadata["field"]) == ("PAYLOAD_TOO_LARGE", "inputs[1]")


async def test_a_key_stands_for_one_content_be_it_a_batch_or_a_job(control: Control) -> None:
    batch = await batch_wire.create(control, idempotency_key="night-0001")
    for call in (
        control.stub.CreateBatch(a_request(idempotency_key="night-0001")),
        control.stub.CreateJob(
            pb.CreateJobRequest(job_type="synthetic", input=b"{}", idempotency_key="night-0001")
        ),
    ):
        refusal = await refused(call)
        assert refusal.code is grpc.StatusCode.ALREADY_EXISTS
        assert (refusal.reason, refusal.metadata) == (
            "IDEMPOTENCY_KEY_REUSED",
            {"batch_id": batch.batch_id},
        )
    job = await control.create(idempotency_key="night-0002")
    refusal = await refused(control.stub.CreateBatch(a_request(idempotency_key="night-0002")))
    assert (refusal.reason, refusal.metadata) == ("IDEMPOTENCY_KEY_REUSED", {"job_id": job.job_id})


async def test_what_the_state_does_not_allow_is_a_conflict(control: Control) -> None:
    batch = await batch_wire.create(control, 2)
    await batch_wire.end(control, batch, {1: SUCCESS, 2: SUCCESS})
    named = pb.RetryBatchItemsRequest(batch_id=batch.batch_id, items=[1])
    unknown = pb.SelectBatchItemsRequest(batch_id=batch.batch_id, items=[3])
    for call, said in (
        (control.stub.CancelBatch(pb.CancelBatchRequest(batch_id=batch.batch_id)), "it is AWAITING_REVIEW"),
        (control.stub.RetryBatchItems(named), "it is AWAITING_REVIEW"),
        (control.stub.SelectBatchItems(unknown), "it has no item 3"),
        (control.stub.AdvanceBatch(ABOUT_ONE["AdvanceBatch"](batch.batch_id)), ""),
    ):
        refusal = await refused(call)
        assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
        assert (refusal.reason, refusal.metadata) == ("BATCH_STATE_CONFLICT", {"batch_id": batch.batch_id})
        assert said in refusal.message
        (violation,) = refusal.details["google.rpc.PreconditionFailure"].violations
        assert (violation.type, violation.subject) == ("BATCH_STATE_CONFLICT", batch.batch_id)


async def test_a_page_token_opens_only_the_list_that_gave_it_out(control: Control) -> None:
    batch, other = await batch_wire.create(control, 3), await batch_wire.create(control, 3)
    batches = await control.stub.ListBatches(pb.ListBatchesRequest(page_size=1))
    items = await control.stub.ListBatchItems(pb.ListBatchItemsRequest(batch_id=batch.batch_id, page_size=1))
    failed = [job_pb2.JOB_STATE_FAILED]
    of_items, of_batches = items.next_page_token, batches.next_page_token
    for call in (
        control.stub.ListBatches(pb.ListBatchesRequest(page_token="nonsense")),
        control.stub.ListBatches(pb.ListBatchesRequest(page_token=of_items)),
        control.stub.ListBatches(pb.ListBatchesRequest(job_type="synthetic", page_token=of_batches)),
        control.stub.ListBatchItems(pb.ListBatchItemsRequest(batch_id=other.batch_id, page_token=of_items)),
        control.stub.ListBatchItems(
            pb.ListBatchItemsRequest(batch_id=batch.batch_id, states=failed, page_token=of_items)
        ),
        control.stub.ListBatchItems(pb.ListBatchItemsRequest(batch_id=batch.batch_id, page_token=of_batches)),
    ):
        refusal = await refused(call)
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
        assert refusal.reason == "INVALID_PAGE_TOKEN"


async def test_a_batch_is_held_to_its_owners_limits_as_a_whole(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    limits = {"active_jobs": 5}
    async with control_running(database_url, redis_url, redis_prefix, owner_limits=limits) as control:
        await batch_wire.create(control, 3, idempotency_key="night-0001")
        refusal = await refused(control.stub.CreateBatch(a_request(inputs=[b"{}"] * 3)))
        assert refusal.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (refusal.reason, refusal.metadata) == ("TOO_MANY_JOBS", {"limit": "5"})
        await batch_wire.create(control, 3, idempotency_key="night-0001")
        await batch_wire.create(control, 2)
        assert len((await control.stub.ListJobs(pb.ListJobsRequest())).jobs) == 5
