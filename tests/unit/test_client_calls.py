"""The client's tries, deadlines and errors, over a channel without a network and a time that stands still."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from operator import methodcaller
from uuid import UUID

import grpc
import pytest

from job_api.client import BatchId, CallFailed, Client, JobId, JobState, Target, errors
from shared.domain.errors import BatonError
from shared.gen.baton.v1 import batch_pb2, job_pb2
from shared.gen.baton.v1 import job_control_pb2 as pb
from tests.support.scripted_control import JOB, a_job, answer, fail, refuse, scripted_control

JOB_ID = JobId(UUID(JOB))

EVERY_ERROR: tuple[BatonError, ...] = (
    errors.InvalidInput([errors.FieldViolation("input.items", "must be at least 0")]),
    errors.UnknownJobType("no_such_type"),
    errors.InvalidPageToken("the page token is broken"),
    errors.PayloadTooLarge("input", 10, 11),
    errors.JobNotFound(JOB_ID),
    errors.BatchNotFound(BatchId(UUID(JOB))),
    errors.JobNotCancellable(JOB_ID, "its definition forbids it"),
    errors.JobAlreadyCancelled(JOB_ID),
    errors.JobNotRetryable(JOB_ID),
    errors.BatchStateConflict(BatchId(UUID(JOB))),
    errors.LeaseLost(JOB_ID),
    errors.IdempotencyKeyReused(JOB_ID),
    errors.TooManyJobs(5),
    errors.QuotaExceeded("jobs_per_day", timedelta(hours=3)),
    errors.Unauthenticated("the token has expired"),
    errors.PermissionDenied("jobs.admin"),
    errors.PermissionDenied(None),
)


def get_job(client: Client) -> object:
    return client.get(JOB_ID)


@pytest.mark.parametrize("error", EVERY_ERROR, ids=lambda error: error.reason)
def test_an_error_of_the_service_is_the_same_error_for_the_caller(error: BatonError) -> None:
    with scripted_control() as control:
        call = control.calling(get_job)
        refuse(control.asked("GetJob")[1], error)

        with pytest.raises(type(error)) as raised:
            call.result()

    assert raised.value.message == str(raised.value) == error.message
    assert vars(raised.value) == vars(error)
    assert control.slept == []


def test_a_reason_that_this_client_does_not_know_is_told_with_its_status() -> None:
    class NewFault(errors.JobNotFound):
        pass

    NewFault.reason = "A_NEW_REASON"
    with scripted_control() as control:
        call = control.calling(get_job)
        refuse(control.asked("GetJob")[1], NewFault(JOB_ID))

        with pytest.raises(CallFailed, match="NOT_FOUND: there is no job"):
            call.result()


def test_a_failure_of_the_transport_is_no_error_of_grpc_for_the_caller() -> None:
    with scripted_control() as control:
        call = control.calling(get_job)
        fail(control.asked("GetJob")[1], grpc.StatusCode.INTERNAL, "internal error, ref 12")

        with pytest.raises(CallFailed) as raised:
            call.result()

    assert (raised.value.status, raised.value.message) == ("INTERNAL", "internal error, ref 12")
    assert control.slept == []


def test_a_call_is_tried_again_while_the_service_is_out_of_reach() -> None:
    with scripted_control() as control:
        call = control.calling(lambda client: client.get(JOB_ID))
        for _ in range(3):
            fail(control.asked("GetJob")[1], grpc.StatusCode.UNAVAILABLE)
        answer(control.asked("GetJob")[1], pb.GetJobResponse(job=a_job()))

        assert call.result().state is JobState.QUEUED

    assert control.slept == [0.05, 0.1, 0.2]


def test_a_service_that_says_how_long_to_wait_is_not_asked_before() -> None:
    with scripted_control() as control:
        call = control.calling(lambda client: client.get(JOB_ID))
        refuse(control.asked("GetJob")[1], errors.PlatformUnavailable("database"))
        answer(control.asked("GetJob")[1], pb.GetJobResponse(job=a_job()))
        call.result()

    assert control.slept == [1.05]


def test_all_tries_together_end_by_the_deadline_with_the_last_error() -> None:
    with scripted_control(timeout=timedelta(seconds=3)) as control:
        call = control.calling(get_job)
        for _ in range(3):
            refuse(control.asked("GetJob")[1], errors.PlatformUnavailable("database"))

        with pytest.raises(errors.PlatformUnavailable) as raised:
            call.result()

    assert raised.value.what == "database"
    assert control.slept == [1.05, 1.1]


def test_a_later_try_gets_only_the_time_that_is_left() -> None:
    with scripted_control(timeout=timedelta(seconds=3)) as control:
        call = control.calling(get_job)
        refuse(control.asked("GetJob")[1], errors.PlatformUnavailable("database"))
        answer(control.asked("GetJob")[1], pb.GetJobResponse(job=a_job()))
        call.result()

    assert control.timeouts == [3.0, pytest.approx(1.95)]


def test_a_call_that_ran_out_of_time_is_not_tried_again() -> None:
    with scripted_control() as control:
        call = control.calling(get_job)
        fail(control.asked("GetJob")[1], grpc.StatusCode.DEADLINE_EXCEEDED)

        with pytest.raises(CallFailed, match="DEADLINE_EXCEEDED"):
            call.result()

    assert control.slept == []


def test_a_creation_without_a_key_gets_one_that_all_its_tries_share() -> None:
    with scripted_control() as control:
        call = control.calling(lambda client: client.create_job("synthetic", {"items": 3}))
        first, rpc = control.asked("CreateJob")
        fail(rpc, grpc.StatusCode.UNAVAILABLE)
        second, rpc = control.asked("CreateJob")
        answer(rpc, pb.CreateJobResponse(job=a_job(), replayed=True))

        assert call.result().replayed

    assert first == second
    assert len(first.idempotency_key) == 32
    assert first.input == b'{"items": 3}'


def test_every_try_of_a_retry_of_items_has_the_same_key_which_a_caller_may_name() -> None:
    batch_id, batch = BatchId(UUID(JOB)), batch_pb2.Batch(batch_id=JOB, state=batch_pb2.BATCH_STATE_QUEUED)
    with scripted_control() as control:
        for key in (None, "night-0001"):
            call = control.calling(methodcaller("retry_batch_items", batch_id, idempotency_key=key))
            first, rpc = control.asked("RetryBatchItems")
            fail(rpc, grpc.StatusCode.UNAVAILABLE)
            second, rpc = control.asked("RetryBatchItems")
            answer(rpc, pb.RetryBatchItemsResponse(batch=batch, replayed=True))

            assert (call.result().count, call.result().replayed) == (0, True)
            assert first == second
            assert len(first.idempotency_key) == 32 if key is None else first.idempotency_key == key


def test_two_creations_without_a_key_create_two_jobs() -> None:
    with scripted_control() as control:
        keys = set()
        for _ in range(2):
            call = control.calling(lambda client: client.create_job("synthetic", b"{}"))
            request, rpc = control.asked("CreateJob")
            answer(rpc, pb.CreateJobResponse(job=a_job()))
            call.result()
            keys.add(request.idempotency_key)

    assert len(keys) == 2


def test_a_key_of_the_caller_is_sent_as_it_is_and_so_is_json_text() -> None:
    with scripted_control() as control:
        call = control.calling(
            lambda client: client.create_job(
                "synthetic", b'{ "b":1, "a":2 }', idempotency_key="order-4711", priority=0
            )
        )
        request, rpc = control.asked("CreateJob")
        answer(rpc, pb.CreateJobResponse(job=a_job()))
        call.result()

    assert request.idempotency_key == "order-4711"
    assert request.input == b'{ "b":1, "a":2 }'
    assert request.overrides.HasField("priority")


def test_what_a_caller_says_about_a_job_is_sent() -> None:
    run_time = datetime(2030, 1, 1, tzinfo=UTC)
    with scripted_control() as control:
        call = control.calling(
            lambda client: client.create_job(
                "synthetic",
                b"{}",
                target=Target(type="document", id="d1"),
                labels={"course": "biology"},
                run_time=run_time,
                start_by_time=run_time + timedelta(hours=1),
                owner="ada",
            )
        )
        request, rpc = control.asked("CreateJob")
        answer(rpc, pb.CreateJobResponse(job=a_job()))
        call.result()

    assert request.target == job_pb2.Target(type="document", id="d1")
    assert dict(request.labels) == {"course": "biology"}
    assert request.run_time.ToDatetime(UTC) == run_time
    assert request.start_by_time.ToDatetime(UTC) == run_time + timedelta(hours=1)
    assert request.owner == "ada"


def test_a_cancel_is_tried_again_for_it_is_idempotent() -> None:
    with scripted_control() as control:
        call = control.calling(lambda client: client.cancel(JOB_ID))
        fail(control.asked("CancelJob")[1], grpc.StatusCode.UNAVAILABLE)
        answer(control.asked("CancelJob")[1], pb.CancelJobResponse(job=a_job()))

        assert call.result().job_id == JOB_ID


def test_a_list_asks_for_a_page_only_when_it_is_needed() -> None:
    with scripted_control() as control:
        jobs = control.client.list(states=[JobState.QUEUED])
        first = control.calling(lambda _: next(jobs))
        request, rpc = control.asked("ListJobs")
        answer(rpc, pb.ListJobsResponse(jobs=[a_job()], next_page_token="more"))
        assert first.result().job_id == JOB_ID
        assert (list(request.filter.states), request.page_token) == ([1], "")

        rest = control.calling(lambda _: list(jobs))
        request, rpc = control.asked("ListJobs")
        answer(rpc, pb.ListJobsResponse(jobs=[a_job(), a_job()]))

        assert len(rest.result()) == 2
        assert request.page_token == "more"


def test_a_token_is_sent_with_each_call() -> None:
    with scripted_control(token="s3cret") as control:
        call = control.calling(get_job)

        assert control.metadata_of("GetJob")["authorization"] == "Bearer s3cret"
        assert call.exception() is not None


def test_no_output_is_none_and_an_output_is_its_value() -> None:
    with scripted_control() as control:
        for told, value in ((b"", None), (b'{"items": [1, 2]}', {"items": [1, 2]})):
            call = control.calling(lambda client: client.output(JOB_ID))
            answer(control.asked("GetJobOutput")[1], pb.GetJobOutputResponse(output=told))
            assert call.result() == value
