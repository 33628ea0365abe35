"""What callers were told is judged by itself: creating, cancelling, keys, and states that go on."""

from __future__ import annotations

from tests.support.evidence import (
    JOB,
    OTHER_JOB,
    a_call,
    a_cancelled_job,
    a_creation,
    a_job,
    evidence,
    holds,
    is_broken,
    judgement,
    told_event,
)
from verification.evidence.evidence import Evidence
from verification.evidence.history import OK, Call, Fault

WIPED = Fault("valkey", "wiped", 1)


def test_an_acknowledged_job_is_there_and_has_ended() -> None:
    assert holds("nothing lost", evidence(calls=[a_creation()]))


def test_an_acknowledged_job_that_is_not_there_is_lost() -> None:
    assert is_broken("nothing lost", evidence(calls=[a_creation(OTHER_JOB)]))


def test_an_acknowledged_job_that_never_ends_is_lost() -> None:
    assert is_broken("nothing lost", evidence(a_job(state="RUNNING"), calls=[a_creation()]))


def test_jobs_of_a_gathered_call_are_acknowledged_too() -> None:
    answer = {
        "outcomes": [{"created": {"job": {"jobId": OTHER_JOB}}}, {"error": {"reason": "INVALID_INPUT"}}]
    }
    call = Call("me", "CreateJobs", {"jobs": [{}, {}]}, answer, OK, "", 0, 1)
    assert is_broken("nothing lost", evidence(calls=[call]))


def test_jobs_end_though_redis_was_wiped() -> None:
    assert holds("Redis is no truth", evidence(faults=[WIPED]))
    assert judgement("Redis is no truth", evidence()).facts == 0


def test_a_job_that_redis_took_with_it_is_caught() -> None:
    assert is_broken("Redis is no truth", evidence(a_job(state="QUEUED"), faults=[WIPED]))


def test_a_cancelled_job_never_succeeds() -> None:
    cancel = a_call("CancelJob", "RUNNING", begin=1)
    later = a_call("GetJob", "CANCELLED", begin=3)
    assert holds("cancelled for good", evidence(a_cancelled_job(), calls=[cancel, later]))


def test_a_success_after_an_acknowledged_cancel_is_caught_wherever_it_shows() -> None:
    cancel = a_call("CancelJob", "RUNNING", begin=1)
    assert is_broken("cancelled for good", evidence(a_job(), calls=[cancel]))
    answered = [cancel, a_call("GetJob", "SUCCEEDED", begin=3)]
    assert is_broken("cancelled for good", evidence(a_cancelled_job(), calls=answered))
    watched = [told_event(6, "succeeded", "SUCCEEDED", 2)]
    assert is_broken("cancelled for good", evidence(a_cancelled_job(), calls=[cancel], told=watched))


def test_a_cancel_that_was_refused_promises_nothing() -> None:
    refused = Call(
        "me", "CancelJob", {"jobId": JOB}, None, "FAILED_PRECONDITION", "JOB_NOT_CANCELLABLE", 0, 1
    )
    assert judgement("cancelled for good", evidence(calls=[refused])).facts == 0


def test_the_same_key_and_body_give_the_same_job_however_it_is_written() -> None:
    calls = [a_creation(document='{"a": 1, "b": 2}'), a_creation(document='{"b":2,"a":1}')]
    assert holds("one job a key", evidence(calls=calls))
    assert holds("one body a key", evidence(calls=calls))
    assert holds("keys and jobs", evidence(calls=calls))


def test_a_second_job_for_a_key_is_caught() -> None:
    assert is_broken("one job a key", evidence(calls=[a_creation(), a_creation(OTHER_JOB)]))


def test_keys_of_other_owners_and_types_are_other_keys() -> None:
    calls = [a_creation(), a_creation(OTHER_JOB, owner="b"), a_creation(OTHER_JOB, jobType="other")]
    assert holds("one job a key", evidence(calls=calls))


def test_another_body_under_the_same_key_is_refused() -> None:
    other = a_creation(document='{"a": 1}', reason="IDEMPOTENCY_KEY_REUSED")
    assert holds("one body a key", evidence(calls=[a_creation(), other]))


def test_another_body_that_is_accepted_is_caught() -> None:
    assert is_broken("one body a key", evidence(calls=[a_creation(), a_creation(document='{"a": 1}')]))
    assert is_broken("one body a key", evidence(calls=[a_creation(), a_creation(labels={"a": "b"})]))


def test_the_same_body_that_is_refused_is_caught() -> None:
    refused = a_creation(reason="IDEMPOTENCY_KEY_REUSED")
    assert is_broken("one body a key", evidence(calls=[a_creation(), refused]))


def test_a_key_that_was_lost_is_caught() -> None:
    rows = a_job()
    rows.keys.clear()
    assert is_broken("keys and jobs", evidence(rows, calls=[a_creation()]))


def test_a_second_job_that_nobody_was_told_of_is_caught() -> None:
    unknown = a_job()
    unknown.keys.clear()
    found = evidence(calls=[a_creation()])
    both = Evidence(found.history, [], {**found.tables, OTHER_JOB: unknown})
    assert is_broken("keys and jobs", both)


def test_answers_go_on_from_state_to_state() -> None:
    calls = [
        a_call("GetJob", "QUEUED", begin=1),
        a_call("GetJob", "SUCCEEDED", begin=3),
        a_call("ListJobs", "RUNNING", begin=3.5),
        a_call("GetJob", "SUCCEEDED", begin=5),
    ]
    assert holds("states go on", evidence(calls=calls))
    assert holds("ends stay", evidence(calls=calls))


def test_an_answer_that_goes_back_is_caught() -> None:
    calls = [a_call("GetJob", "RUNNING", begin=1), a_call("GetJob", "QUEUED", begin=3)]
    assert is_broken("states go on", evidence(calls=calls))


def test_an_end_that_changes_is_caught() -> None:
    calls = [a_call("GetJob", "FAILED", begin=1), a_call("GetJob", "SUCCEEDED", begin=3)]
    assert is_broken("states go on", evidence(calls=calls))
    assert is_broken("ends stay", evidence(calls=calls))
    assert is_broken("ends stay", evidence(told=[told_event(6, "failed", "FAILED", 2)]))
