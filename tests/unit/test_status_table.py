from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from shared.domain import errors
from shared.domain.identity import BatchId, JobId
from shared.rpc.status import STATUS_OF, code_of, details, rich_status

JOB = JobId(UUID(int=4711))
BATCH = BatchId(UUID(int=17))
TRAILERS_BYTES_MAX = 8192


def every_error(root: type[errors.BatonError] = errors.BatonError) -> Iterator[type[errors.BatonError]]:
    for each in root.__subclasses__():
        if "reason" in vars(each):
            yield each
        yield from every_error(each)


def an_error_of_each() -> list[errors.BatonError]:
    return [
        errors.InvalidInput([errors.FieldViolation("job_type", "must not be empty")]),
        errors.UnknownJobType("no_such_type"),
        errors.InvalidPageToken(),
        errors.PayloadTooLarge("input", 10, 11),
        errors.JobNotFound(JOB),
        errors.BatchNotFound(BATCH),
        errors.JobNotCancellable(JOB),
        errors.JobAlreadyCancelled(JOB),
        errors.JobNotRetryable(JOB),
        errors.BatchStateConflict(BATCH),
        errors.LeaseLost(JOB),
        errors.IdempotencyKeyReused(JOB),
        errors.TooManyJobs(5),
        errors.QuotaExceeded("jobs_per_day", timedelta(hours=3)),
        errors.PlatformUnavailable("database"),
        errors.Unauthenticated(),
        errors.PermissionDenied("jobs.admin"),
    ]


def test_every_error_that_a_caller_may_get_is_in_the_table() -> None:
    assert set(every_error()) - {errors.IllegalTransition} == set(STATUS_OF)


def test_no_two_errors_have_the_same_reason() -> None:
    reasons = [each.reason for each in every_error()]
    assert len(reasons) == len(set(reasons))


def test_an_illegal_transition_is_a_bug_and_not_for_callers() -> None:
    assert code_of(errors.IllegalTransition("SUCCEEDED -> RUNNING")) is None


def test_an_error_that_refines_one_of_the_table_has_its_status() -> None:
    class InvalidLabel(errors.InvalidInput):
        """Has no reason of its own."""

    refined = InvalidLabel([errors.FieldViolation("labels", "too many")])
    assert code_of(refined) is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("error", an_error_of_each(), ids=lambda error: error.reason)
def test_every_status_starts_with_the_reason(error: errors.BatonError) -> None:
    status = rich_status(error)
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (info.reason, info.domain, dict(info.metadata)) == (error.reason, "baton", dict(error.metadata))
    assert rpc_status.to_status(status).code is STATUS_OF[type(error)]


def test_the_examples_cover_the_table() -> None:
    assert {type(each) for each in an_error_of_each()} == set(STATUS_OF)


def test_wrong_fields_are_named() -> None:
    [_, bad_request] = details(errors.InvalidInput([errors.FieldViolation("jobs[3].labels", "at most 32")]))
    assert [(each.field, each.description) for each in bad_request.field_violations] == [  # type: ignore[attr-defined]
        ("jobs[3].labels", "at most 32")
    ]


def test_a_used_up_quota_says_when_to_come_back() -> None:
    _, quota, retry = details(errors.QuotaExceeded("jobs_per_day", timedelta(hours=3)))
    assert isinstance(quota, error_details_pb2.QuotaFailure)
    assert quota.violations[0].subject == "jobs_per_day"
    assert isinstance(retry, error_details_pb2.RetryInfo)
    assert retry.retry_delay.ToTimedelta() == timedelta(hours=3)


def test_an_unavailable_platform_says_which_part_and_when_to_try_again() -> None:
    info, retry = details(errors.PlatformUnavailable("database"))
    assert isinstance(info, error_details_pb2.ErrorInfo)
    assert dict(info.metadata) == {"what": "database"}
    assert isinstance(retry, error_details_pb2.RetryInfo)


def test_a_state_that_forbids_is_a_failed_precondition_on_the_job() -> None:
    [_, precondition] = details(errors.JobNotCancellable(JOB, "it has ended"))
    assert isinstance(precondition, error_details_pb2.PreconditionFailure)
    assert precondition.violations[0].type == "JOB_NOT_CANCELLABLE"
    assert precondition.violations[0].subject == str(JOB)


@pytest.mark.parametrize(
    "error",
    [
        errors.InvalidInput([errors.FieldViolation(f"jobs[{n}].input", "ж" * 500) for n in range(1000)]),
        errors.UnknownJobType("ж" * 100_000),
        errors.PermissionDenied("ж" * 100_000),
    ],
    ids=["a thousand violations", "a long name", "a long scope"],
)
def test_a_status_stays_small_enough_for_the_trailers(error: errors.BatonError) -> None:
    status = rich_status(error)
    base64_bytes = status.ByteSize() * 4 / 3
    percent_encoded_bytes = 3 * len(status.message.encode())
    assert base64_bytes + percent_encoded_bytes < TRAILERS_BYTES_MAX
