"""What was done under leases is judged: stale ones count for nothing, and a report counts once."""

from __future__ import annotations

from tests.support.evidence import (
    FIRST,
    JOB,
    SECOND,
    a_call,
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
    told,
    told_event,
)
from verification.evidence.history import Frame
from verification.evidence.ledger import FINISHED, STARTED, Entry


def entries(*lines: tuple[int, str, str]) -> list[Entry]:
    return [Entry(JOB, *line) for line in lines]


def test_an_attempt_that_starts_under_two_leases_is_caught() -> None:
    ledger = entries((1, FIRST, STARTED), (1, "1.another-secret", STARTED))
    assert is_broken("one start", evidence(ledger=ledger))


def test_a_success_is_of_the_handler_that_held_the_lease() -> None:
    zombie = entries((1, FIRST, STARTED), (2, SECOND, STARTED), (1, FIRST, FINISHED))
    assert is_broken("own results", evidence(ledger=zombie))
    assert holds("own results", evidence(ledger=[*zombie, *entries((2, SECOND, FINISHED))]))


def test_a_success_by_the_output_of_another_attempt_is_caught() -> None:
    rows = a_job()
    rows.attempts[1]["output_attempt"] = 1  # type: ignore[index]
    assert is_broken("own results", evidence(rows))


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
