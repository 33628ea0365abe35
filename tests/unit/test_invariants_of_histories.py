"""Each promise to callers, watchers and executors is judged from what they saw; contradictions are caught."""

from __future__ import annotations

from tests.support.evidence import (
    FIRST,
    JOB,
    OTHER_JOB,
    SECOND,
    a_call,
    a_cancelled_job,
    a_creation,
    a_job,
    a_lease,
    a_report,
    an_answer,
    evidence,
    holds,
    is_broken,
    judgement,
    received,
    sent,
    time,
    told,
    told_event,
)
from verification.evidence.evidence import Evidence
from verification.evidence.history import OK, Call, Fault, Frame, History, Told
from verification.evidence.ledger import FINISHED, STARTED, Entry
from verification.evidence.samples import Backlog, Sample, Samples, Search
from verification.evidence.tables import JobRows
from verification.invariants.catalog import INVARIANTS

WIPED = Fault("valkey", "wiped", 1)


def test_an_invariant_without_facts_is_not_judged() -> None:
    nothing = evidence(JobRows())
    assert {judgement(each.name, nothing).facts for each in INVARIANTS} == {0}


def test_names_are_told_apart() -> None:
    names = [each.name for each in INVARIANTS]
    assert len(set(names)) == len(names)
    assert {each.number for each in INVARIANTS} == {*range(1, 16)} - {9}


# 1, 7: nothing is lost


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


# 3: only the current lease


def entries(*lines: tuple[int, str, str]) -> list[Entry]:
    return [Entry(JOB, *line) for line in lines]


def test_each_lease_starts_its_handler_once_and_both_may_finish() -> None:
    ledger = entries((1, FIRST, STARTED), (2, SECOND, STARTED), (2, SECOND, FINISHED), (1, FIRST, FINISHED))
    assert holds("one start", evidence(ledger=ledger))
    assert holds("leased starts", evidence(ledger=ledger))


def test_a_second_start_under_one_lease_is_caught() -> None:
    assert is_broken("one start", evidence(ledger=entries((1, FIRST, STARTED), (1, FIRST, STARTED))))


def test_a_start_under_a_lease_that_nobody_granted_is_caught() -> None:
    assert is_broken("leased starts", evidence(ledger=entries((3, "3.secret", STARTED))))
    assert is_broken("leased starts", evidence(ledger=entries((1, SECOND, STARTED))))


def stale_report(outcome: str) -> list[Frame]:
    return [
        received(1, leases=[a_lease(FIRST, 1)]),
        received(2, "s2", leases=[a_lease(SECOND, 2)]),
        sent(3, reports=[a_report(FIRST)]),
        received(4, answers=[an_answer(FIRST, outcome)]),
    ]


def test_a_report_under_an_ended_lease_is_refused() -> None:
    assert holds("stale reports", evidence(frames=stale_report("LEASE_LOST")))


def test_a_report_under_an_ended_lease_that_is_taken_is_caught() -> None:
    assert is_broken("stale reports", evidence(frames=stale_report("ACCEPTED")))


def test_that_the_next_attempt_has_begun_is_known_from_watches_and_answers_too() -> None:
    stale = [sent(5, reports=[a_report(FIRST)]), received(6, answers=[an_answer(FIRST, "ACCEPTED")])]
    watched = [told_event(5, "started", "RUNNING", 2, at=4)]
    answered = [a_call("GetJob", "RUNNING", begin=1, attempt=2)]
    assert is_broken("stale reports", evidence(frames=stale, told=watched))
    assert is_broken("stale reports", evidence(frames=stale, calls=answered))


def test_a_report_that_ended_its_attempt_may_be_repeated_later() -> None:
    frames = [
        sent(1, reports=[a_report(FIRST)]),
        received(2, answers=[an_answer(FIRST, "RETRY_SCHEDULED")]),
        received(3, leases=[a_lease(SECOND, 2)]),
        sent(4, reports=[a_report(FIRST)]),
        received(5, answers=[an_answer(FIRST, "RETRY_SCHEDULED")]),
    ]
    assert judgement("stale reports", evidence(frames=frames)).holds
    assert holds("same report, same answer", evidence(frames=frames))


def a_late_piece(number: int) -> list[Frame]:
    lease = {"jobId": JOB, "token": FIRST}
    return [
        sent(1, pieces=[{"lease": lease, "number": 1, "text": "in time"}]),
        received(2, "s2", leases=[a_lease(SECOND, 2)]),
        sent(3, pieces=[{"lease": lease, "number": number, "text": "late"}]),
    ]


def test_a_late_piece_is_not_stored() -> None:
    assert holds("stale pieces", evidence(frames=a_late_piece(2)))


def test_a_late_piece_that_is_stored_is_caught() -> None:
    rows = a_job()
    rows.pieces.append({"attempt": 1, "number": 2})
    assert is_broken("stale pieces", evidence(rows, frames=a_late_piece(2)))


def test_watchers_are_told_of_the_current_attempt_only() -> None:
    started = told_event(5, "started", "RUNNING", 2)
    assert holds("current news", evidence(told=[started, told({"progress": {"attempt": 2, "progress": 5}})]))
    assert is_broken("current news", evidence(told=[started, told({"progress": {"attempt": 1}})]))
    assert is_broken("current news", evidence(told=[started, told({"piece": {"attempt": 1, "number": 1}})]))


# 4: one report


def test_another_answer_to_the_same_report_is_caught() -> None:
    frames = [
        sent(1, reports=[a_report(FIRST)]),
        received(2, answers=[an_answer(FIRST, "RETRY_SCHEDULED")]),
        sent(3, "s2", reports=[a_report(FIRST)]),
        received(4, "s2", answers=[an_answer(FIRST, "LEASE_LOST")]),
    ]
    assert is_broken("same report, same answer", evidence(frames=frames))


def two_reports(second: str) -> list[Frame]:
    return [
        sent(1, reports=[a_report(FIRST, "PROVIDER_TIMEOUT"), a_report(FIRST, "PROVIDER_RATE_LIMIT")]),
        received(2, answers=[an_answer(FIRST, "RETRY_SCHEDULED"), an_answer(FIRST, second)]),
    ]


def test_a_second_and_different_report_is_refused() -> None:
    assert holds("one report", evidence(frames=two_reports("REFUSED")))


def test_a_second_and_different_report_that_is_taken_is_caught() -> None:
    assert is_broken("one report", evidence(frames=two_reports("RETRY_SCHEDULED")))


# 5: a cancel is for good


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


# 6: keys


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


# 8: watchers


def test_a_watcher_gets_every_next_event_once() -> None:
    watched = [
        told_event(3, "attempt_ended", "RUNNING", 1),
        told_event(4, "retry_scheduled", "RUNNING", 1),
        told_event(3, "attempt_ended", "RUNNING", 1, watch="another"),
    ]
    assert holds("events watched", evidence(told=watched))
    assert holds("told truly", evidence(told=watched))


def test_a_gap_and_a_repeat_in_a_watch_are_caught() -> None:
    first = told_event(3, "attempt_ended", "RUNNING", 1)
    assert is_broken("events watched", evidence(told=[first, first]))
    assert is_broken("events watched", evidence(told=[first, told_event(5, "started", "RUNNING", 2)]))


def test_an_event_that_is_told_otherwise_than_it_is_stored_is_caught() -> None:
    assert is_broken("told truly", evidence(told=[told_event(3, "succeeded", "SUCCEEDED", 1)]))
    assert is_broken("told truly", evidence(told=[told_event(7, "started", "RUNNING", 3)]))


def pieces(*places: tuple[int, int]) -> list[Told]:
    return [told({"piece": {"attempt": attempt, "number": number}}) for attempt, number in places]


def test_a_watcher_gets_every_next_piece_once() -> None:
    assert holds("pieces watched", evidence(told=pieces((1, 600), (1, 601), (2, 1), (2, 2))))


def test_a_gap_and_a_repeat_of_pieces_are_caught() -> None:
    for wrong in (((1, 1), (1, 3)), ((1, 1), (1, 1)), ((1, 5), (2, 2)), ((2, 1), (1, 1))):
        assert is_broken("pieces watched", evidence(told=pieces(*wrong)))


# 11: secrets


def test_places_without_secrets_are_passed() -> None:
    assert holds("secrets kept", evidence(samples=Samples(searches=[Search("api.log")])))


def test_a_secret_in_a_log_is_caught() -> None:
    found = Samples(searches=[Search("api.log"), Search("worker.log", ["input: secret"])])
    assert is_broken("secrets kept", evidence(samples=found))


# 12: memory


def a_sample(*, entries: int, demand: int = 4, waiting: int = 5_000, memory_bytes: int = 1 << 20) -> Sample:
    return Sample(0, waiting, memory_bytes, {"baton:lease:{drill}:s": entries}, demand)


def test_a_short_head_of_a_long_backlog_is_passed() -> None:
    samples = Samples(samples=[a_sample(entries=0, waiting=0), a_sample(entries=16)])
    assert holds("heads in Redis", evidence(samples=samples))
    assert holds("flat memory", evidence(samples=samples))


def test_a_backlog_in_redis_is_caught() -> None:
    assert is_broken("heads in Redis", evidence(samples=Samples(samples=[a_sample(entries=5_000)])))


def test_memory_that_grows_with_the_backlog_is_caught() -> None:
    samples = [a_sample(entries=0, waiting=0), a_sample(entries=8, memory_bytes=100 << 20)]
    assert is_broken("flat memory", evidence(samples=Samples(samples=samples)))


# 13: order


def started(*order: tuple[str, int, int], slack: int = 0) -> Evidence:
    """A backlog that started in this order: each job with its owner, its priority, and its place by age."""
    tables = {
        f"job-{place}": a_job(owner=owner, priority=priority, create_time=time(age), start_time=time(place))
        for place, (owner, priority, age) in enumerate(order)
    }
    return Evidence(History(), [], tables, Samples(backlogs=[Backlog(list(tables), slack)]))


def test_owners_take_turns_and_the_more_urgent_then_the_older_goes_first() -> None:
    assert holds("in turn", started(("a", 50, 1), ("b", 50, 9), ("b", 50, 10), ("a", 50, 2), ("a", 50, 3)))
    assert holds("in turn", started(("a", 40, 9), ("a", 50, 1), ("a", 50, 2)))


def test_an_owner_who_goes_first_with_all_jobs_is_caught() -> None:
    assert is_broken("in turn", started(("a", 50, 1), ("a", 50, 2), ("a", 50, 3), ("b", 50, 4)))


def test_new_work_before_old_and_urgent_work_last_are_caught() -> None:
    assert is_broken("in turn", started(("a", 50, 2), ("a", 50, 1)))
    assert is_broken("in turn", started(("a", 50, 1), ("a", 40, 2)))


def test_what_the_head_held_before_may_be_anywhere() -> None:
    late = [("a", 50, age) for age in (6, 1, 2, 3, 4, 5)]
    assert is_broken("in turn", started(*late))
    assert holds("in turn", started(*late, slack=1))
    assert is_broken("in turn", started(*[("a", 50, age) for age in (6, 5, 4, 3, 2, 1)], slack=1))


# 14: states go on


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
