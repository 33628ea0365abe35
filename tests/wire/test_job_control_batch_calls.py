"""What the calls about batches answer where all is well."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.jobs import JobError
from shared.gen.baton.v1 import batch_pb2, job_pb2
from shared.gen.baton.v1 import job_control_pb2 as pb
from tests.support import batch_wire, batches
from tests.support.batch_wire import counted, state_of
from tests.support.batches import SUCCESS
from tests.support.control_service import Control, bearing, control_running, listed_ids, refused

BROKEN = AttemptEnd(AttemptOutcome.FAILED, JobError("INPUT_BROKEN", "no image in it", "at 10.0.0.7"))


async def pages(method: Any, request: Any) -> list[Any]:
    """All pages of a list."""
    found = [await method(request)]
    while found[-1].next_page_token:
        request.page_token = found[-1].next_page_token
        found.append(await method(request))
    return found


async def test_a_batch_is_created_with_all_its_items(control: Control) -> None:
    target, labels = job_pb2.Target(type="course", id="7"), {"night": "bad"}
    inputs = [b'{"items": %d}' % number for number in range(1, 6)]
    batch = await batch_wire.create(
        control,
        inputs=inputs,
        title="Night run",
        target=target,
        labels=labels,
        overrides=pb.JobOverrides(priority=7),
    )

    assert (state_of(batch.state), batch.size, counted(batch.counters)) == ("QUEUED", 5, "5/0/0/0/0")
    assert (batch.job_type, batch.owner, batch.title) == ("synthetic", "local", "Night run")
    assert (batch.target, dict(batch.labels), batch.progress) == (target, labels, 0)
    assert (batch.last_event_number, batch.HasField("start_time"), batch.HasField("settle_time")) == (
        1,
        False,
        False,
    )
    listed = await control.stub.ListBatchItems(pb.ListBatchItemsRequest(batch_id=batch.batch_id))
    assert [each.number for each in listed.items] == [1, 2, 3, 4, 5]
    for each in listed.items:
        assert (each.job.batch_id, each.job.batch_item) == (batch.batch_id, each.number)
        assert (each.job.priority, each.job.target, dict(each.job.labels)) == (7, target, labels)
    assert await control.get(listed.items[0].job.job_id) == listed.items[0].job


async def test_the_same_key_and_content_is_the_same_batch(control: Control) -> None:
    request = pb.CreateBatchRequest(
        job_type="synthetic", inputs=[b"{}", b'{"items": 2}'], idempotency_key="night-0001"
    )
    first = await control.stub.CreateBatch(request)
    await batch_wire.end(control, first.batch, {1: SUCCESS})
    request.inputs[1] = b'{ "items":2 }'
    again = await control.stub.CreateBatch(request)
    del request.inputs[1]
    request.idempotency_key = "night-0002"
    other = await control.stub.CreateBatch(request)

    assert (first.replayed, again.replayed, other.replayed) == (False, True, False)
    assert again.batch.batch_id == first.batch.batch_id != other.batch.batch_id
    assert state_of(again.batch.state) == "RUNNING"


async def test_a_batch_shows_its_counters_and_why_items_failed(control: Control) -> None:
    batch = await batch_wire.create(control, 5)
    await batch_wire.end(control, batch, {2: BROKEN, 3: SUCCESS, 4: BROKEN})
    await batch_wire.start(control, batch, 5)
    shown = await batch_wire.shown(control, batch)

    assert (state_of(shown.batch.state), counted(shown.batch.counters)) == ("RUNNING", "1/1/1/2/0")
    assert shown.batch.progress == 60
    assert shown.batch.HasField("start_time")
    assert [each.number for each in shown.failed_items] == [2, 4]
    error = job_pb2.JobError(code="INPUT_BROKEN", message="no image in it", internal_message="at 10.0.0.7")
    assert [each.job.error for each in shown.failed_items] == [error] * 2
    assert [each.attempt_count for each in shown.failed_items] == [1, 1]


async def test_items_are_paged_by_number_and_filtered_by_state(control: Control) -> None:
    batch = await batch_wire.create(control, 7)
    await batch_wire.end(control, batch, {2: BROKEN, 5: SUCCESS, 6: BROKEN})
    for states, numbers in (
        ((), [1, 2, 3, 4, 5, 6, 7]),
        (("FAILED",), [2, 6]),
        (("FAILED", "SUCCEEDED"), [2, 5, 6]),
        (("CANCELLED",), []),
    ):
        request = pb.ListBatchItemsRequest(
            batch_id=batch.batch_id,
            states=[job_pb2.JobState.Value(f"JOB_STATE_{each}") for each in states],
            page_size=2,
        )
        found = await pages(control.stub.ListBatchItems, request)
        assert [each.number for page in found for each in page.items] == numbers
        assert all(len(page.items) == 2 for page in found[:-1])


async def test_batches_are_listed_newest_first_by_what_is_asked_for(control: Control) -> None:
    course = job_pb2.Target(type="course", id="7")
    first = await batch_wire.create(control, title="Night run", target=course)
    second = await batch_wire.create(control, title="night 100%", job_type="image_render", inputs=[b"{}"])
    third = await batch_wire.create(control, 1, target=job_pb2.Target(type="course", id="8"))
    await batch_wire.end(control, third, {1: SUCCESS})

    async def ids(**fields: Any) -> list[str]:
        request = pb.ListBatchesRequest(page_size=2, **fields)
        found = await pages(control.stub.ListBatches, request)
        return [each.batch_id for page in found for each in page.batches]

    one, two, three = first.batch_id, second.batch_id, third.batch_id
    between = Timestamp()
    between.FromNanoseconds(second.create_time.ToNanoseconds())
    assert await ids() == [three, two, one]
    assert await ids(states=[batch_pb2.BATCH_STATE_QUEUED]) == [two, one]
    assert await ids(job_type="image_render") == [two]
    assert await ids(target=job_pb2.Target(type="course")) == [three, one]
    assert await ids(target=course) == [one]
    assert await ids(text="NIGHT") == [two, one]
    assert await ids(text="00%") == [two]
    assert await ids(create_time_from=between) == [three, two]
    assert await ids(create_time_to=between) == [one]
    assert await ids(owner="nobody") == []


async def test_a_cancel_skips_what_waits_at_once_and_lets_finish_what_runs(control: Control) -> None:
    batch = await batch_wire.create(control, 4)
    await batch_wire.end(control, batch, {1: SUCCESS})
    await batch_wire.start(control, batch, 2)
    for _ in range(2):
        answer = await control.stub.CancelBatch(pb.CancelBatchRequest(batch_id=batch.batch_id))
        assert (state_of(answer.batch.state), counted(answer.batch.counters)) == ("RUNNING", "0/1/1/0/2")
    await batch_wire.end(control, batch, {2: SUCCESS})
    shown = (await batch_wire.shown(control, batch)).batch
    assert (state_of(shown.state), counted(shown.counters), shown.progress) == ("CANCELLED", "0/0/2/0/2", 100)
    answer = await control.stub.CancelBatch(pb.CancelBatchRequest(batch_id=batch.batch_id))
    assert answer.batch == shown


async def test_retried_items_have_new_jobs_under_their_numbers(control: Control) -> None:
    batch = await batch_wire.create(control, 3)
    await batch_wire.end(control, batch, {1: SUCCESS, 2: BROKEN, 3: BROKEN})
    before = (await batch_wire.shown(control, batch)).failed_items
    request = pb.RetryBatchItemsRequest(batch_id=batch.batch_id, items=[3, 3])
    answer = await control.stub.RetryBatchItems(request)

    assert (answer.count, state_of(answer.batch.state)) == (1, "QUEUED")
    assert counted(answer.batch.counters) == "1/0/1/1/0"
    listed = await control.stub.ListBatchItems(pb.ListBatchItemsRequest(batch_id=batch.batch_id))
    third = listed.items[2]
    assert list(third.earlier_job_ids) == [before[1].job.job_id]
    assert (third.job.origin_job_id, third.job.batch_item) == (before[1].job.job_id, 3)
    assert await control.get(before[1].job.job_id) == before[1].job
    await batch_wire.end(control, batch, {3: SUCCESS})
    rest = await control.stub.RetryBatchItems(pb.RetryBatchItemsRequest(batch_id=batch.batch_id))
    assert (rest.count, counted(rest.batch.counters)) == (1, "1/0/2/0/0")
    items = (await control.stub.ListBatchItems(pb.ListBatchItemsRequest(batch_id=batch.batch_id))).items
    assert [each.attempt_count for each in items] == [1, 1, 2]


async def test_a_retry_of_items_that_is_repeated_with_its_key_tries_nothing_again(control: Control) -> None:
    batch = await batch_wire.create(control, 2)
    await batch_wire.end(control, batch, {1: BROKEN, 2: BROKEN})
    request = pb.RetryBatchItemsRequest(batch_id=batch.batch_id, idempotency_key="night-0001")
    first = await control.stub.RetryBatchItems(request)
    await batch_wire.end(control, batch, {1: BROKEN, 2: BROKEN})
    again = await control.stub.RetryBatchItems(request)

    assert [(each.count, each.replayed) for each in (first, again)] == [(2, False), (0, True)]
    assert (state_of(again.batch.state), counted(again.batch.counters)) == ("FAILED", "0/0/0/2/0")
    request.items.append(1)
    refusal = await refused(control.stub.RetryBatchItems(request))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.ALREADY_EXISTS, "IDEMPOTENCY_KEY_REUSED")
    items = (await control.stub.ListBatchItems(pb.ListBatchItemsRequest(batch_id=batch.batch_id))).items
    assert refusal.metadata == {"job_id": items[0].job.job_id}


async def test_succeeded_items_are_selected_exported_and_stored(control: Control) -> None:
    batch = await batch_wire.create(control, 3)
    await batch_wire.end(control, batch, {1: SUCCESS, 2: BROKEN, 3: SUCCESS})
    select = pb.SelectBatchItemsRequest(batch_id=batch.batch_id, items=[3])
    assert state_of((await control.stub.SelectBatchItems(select)).batch.state) == "SELECTED"
    listed = await control.stub.ListBatchItems(pb.ListBatchItemsRequest(batch_id=batch.batch_id))
    assert [each.selected for each in listed.items] == [False, False, True]
    for state in (batch_pb2.BATCH_STATE_EXPORTED, batch_pb2.BATCH_STATE_STORED):
        advance = pb.AdvanceBatchRequest(batch_id=batch.batch_id, state=state)
        assert (await control.stub.AdvanceBatch(advance)).batch.state == state


async def test_an_estimate_multiplies_what_is_known_of_an_item(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    known = {"image_render": {"cost": "0.125", "seconds": 1.5}}
    async with control_running(database_url, redis_url, redis_prefix, estimates=known) as control:

        async def estimate(job_type: str, size: int) -> tuple[str, timedelta]:
            request = pb.EstimateBatchRequest(job_type=job_type, size=size)
            told = (await control.stub.EstimateBatch(request)).estimate
            assert told.size == size
            return told.cost, told.work_time.ToTimedelta()

        assert await estimate("image_render", 10_000) == ("1250.000", timedelta(seconds=15_000))
        assert await estimate("image_matting", 30) == ("0.60", timedelta(seconds=90))
        assert await estimate("synthetic", 30) == ("0", timedelta(0))
        assert not (await control.stub.ListBatches(pb.ListBatchesRequest())).batches


async def test_jobs_are_listed_cancelled_and_retried_by_their_batch(control: Control) -> None:
    batch, other = await batch_wire.create(control, 3), await batch_wire.create(control, 2)
    items = (await control.stub.ListBatchItems(pb.ListBatchItemsRequest(batch_id=batch.batch_id))).items
    ours = pb.JobFilter(batch_id=batch.batch_id)

    assert sorted(await listed_ids(control, filter=ours)) == sorted(each.job.job_id for each in items)
    assert await listed_ids(control, filter=pb.JobFilter(batch_id=batch_wire.NO_BATCH)) == []
    cancelled = await control.stub.CancelJobs(pb.CancelJobsRequest(filter=ours))
    assert cancelled.count == 3
    assert state_of((await batch_wire.shown(control, batch)).batch.state) == "CANCELLED"
    assert counted((await batch_wire.shown(control, other)).batch.counters) == "2/0/0/0/0"
    counting = pb.RetryJobsRequest(filter=ours, dry_run=True)
    assert (await control.stub.RetryJobs(counting)).count == 3


async def test_a_backend_creates_batches_for_the_owners_that_it_names(guarded_control: Control) -> None:
    control = guarded_control
    backend = bearing("backend", "jobs.write", "jobs.on_behalf")
    ada = bearing("ada", "jobs.read")
    batch = await batch_wire.create(control, owner="ada", metadata=backend)

    assert batch.owner == "ada"
    shown = (await batch_wire.shown(control, batch, metadata=ada)).batch
    assert (shown.batch_id, await batches.faults_of_batches(control.transactions)) == (batch.batch_id, [])
