"""What follows an attempt that ended without success."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.domain.attempts import (
    GIVE_BACKS_FREE,
    AttemptEnd,
    AttemptOutcome,
    Finish,
    Standing,
    TryAgain,
    decide,
    effective,
)
from shared.domain.jobs import JobChange, JobError
from shared.domain.retries import Backoff, RetryPolicy

SECOND = timedelta(seconds=1)
FRESH = Standing(
    failures=0, internal_failures=0, losses=0, give_backs=0, age=timedelta(0), cancel_requested=False
)
POLICY = RetryPolicy(max_retries=2, backoff=Backoff(base=2 * SECOND, cap=60 * SECOND))


def failed(code: str, **fields: object) -> AttemptEnd:
    return replace(AttemptEnd(AttemptOutcome.FAILED, JobError(code, "it failed")), **fields)  # type: ignore[arg-type]


TIMED_OUT = AttemptEnd(AttemptOutcome.TIMED_OUT, JobError("TIMEOUT", "it took too long"))
LOST = AttemptEnd(AttemptOutcome.LOST)
GIVEN_BACK = AttemptEnd(AttemptOutcome.GIVEN_BACK)
EVERY_END = (failed("PROVIDER_TIMEOUT"), failed("INPUT_BROKEN"), TIMED_OUT, LOST, GIVEN_BACK)


def follows(end: AttemptEnd, standing: Standing = FRESH, policy: RetryPolicy = POLICY) -> TryAgain | Finish:
    return decide(end, standing, policy, uniform=0.5)


@pytest.mark.parametrize("end", EVERY_END, ids=lambda end: f"{end.outcome}-{end.error and end.error.code}")
def test_a_requested_cancel_wins_over_every_end(end: AttemptEnd) -> None:
    decision = follows(end, replace(FRESH, cancel_requested=True))
    assert isinstance(decision, Finish)
    assert decision.change is JobChange.CANCELLED


@pytest.mark.parametrize("end", EVERY_END, ids=lambda end: f"{end.outcome}-{end.error and end.error.code}")
@pytest.mark.parametrize("forced", [False, True])
def test_with_a_cancel_requested_every_end_counts_as_cancelled_and_costs_nothing(
    end: AttemptEnd, forced: bool
) -> None:
    cancelled = replace(FRESH, failures=2, losses=2, cancel_requested=True)
    counted = effective(replace(end, forced=forced, suspect=True, refused=True), cancelled)

    assert counted == AttemptEnd(AttemptOutcome.CANCELLED, forced=forced)
    assert follows(end, cancelled) == Finish(JobChange.CANCELLED, None, cancelled)


@pytest.mark.parametrize("end", EVERY_END, ids=lambda end: f"{end.outcome}-{end.error and end.error.code}")
def test_in_a_cancelled_batch_every_end_counts_as_what_it_is_and_is_the_last(end: AttemptEnd) -> None:
    skipping = replace(FRESH, skipping=True)
    decision = follows(end, skipping)

    assert effective(end, skipping) == end
    assert isinstance(decision, Finish)
    assert (decision.change, decision.error) == (JobChange.CANCELLED, None)


@pytest.mark.parametrize("end", EVERY_END, ids=lambda end: f"{end.outcome}-{end.error and end.error.code}")
def test_without_a_cancel_an_end_counts_as_what_it_is(end: AttemptEnd) -> None:
    assert effective(end, FRESH) == end


@pytest.mark.parametrize("code", ["PROVIDER_TIMEOUT", "VALIDATION_OUTPUT"])
def test_a_retryable_failure_is_tried_max_retries_times_more(code: str) -> None:
    outcomes = [follows(failed(code), replace(FRESH, failures=before)) for before in range(3)]
    assert [isinstance(each, TryAgain) for each in outcomes] == [True, True, False]


@pytest.mark.parametrize(
    "code", ["INPUT_BROKEN", "CONTENT_SAFETY_INPUT", "CREDENTIAL_INVALID", "PAYLOAD_TOO_LARGE"]
)
def test_some_failures_are_never_tried_again(code: str) -> None:
    decision = follows(failed(code))
    assert isinstance(decision, Finish)
    assert decision.change is JobChange.FAILED
    assert decision.error is not None
    assert decision.error.code == code


def test_a_permanent_failure_is_not_tried_again() -> None:
    assert isinstance(follows(failed("PROVIDER_REFUSED", permanent=True)), Finish)


@pytest.mark.parametrize("code", ["INTERNAL_HANDLER", "SOMETHING_UNKNOWN"])
def test_a_fault_of_the_engine_is_tried_once_more(code: str) -> None:
    first = follows(failed(code))
    assert isinstance(first, TryAgain)
    assert isinstance(follows(failed(code), first.standing), Finish)


def test_no_retries_means_none_for_the_engines_own_faults_too() -> None:
    assert isinstance(follows(failed("INTERNAL_HANDLER"), policy=replace(POLICY, max_retries=0)), Finish)


def test_the_definition_decides_about_time_outs() -> None:
    assert isinstance(follows(TIMED_OUT), TryAgain)
    assert isinstance(follows(TIMED_OUT, policy=replace(POLICY, retry_timeouts=False)), Finish)


def test_losses_are_counted_apart_and_the_third_fails_the_job() -> None:
    standing, decisions = replace(FRESH, failures=2), []
    for _ in range(3):
        decision = follows(LOST, standing)
        decisions.append(decision)
        standing = decision.standing
    assert [isinstance(each, TryAgain) for each in decisions] == [True, True, False]
    assert standing.failures == 2
    last = decisions[-1]
    assert isinstance(last, Finish)
    assert last.error is not None
    assert last.error.code == "EXECUTOR_LOST"


def test_a_lease_that_was_given_back_costs_nothing_and_is_offered_at_once() -> None:
    decision = follows(GIVEN_BACK, replace(FRESH, failures=2, losses=2))
    assert isinstance(decision, TryAgain)
    assert decision.delay == timedelta(0)
    assert (decision.standing.failures, decision.standing.losses) == (2, 2)


def test_a_job_that_nobody_keeps_backs_off() -> None:
    decision = follows(GIVEN_BACK, replace(FRESH, give_backs=GIVE_BACKS_FREE))
    assert isinstance(decision, TryAgain)
    assert decision.delay == SECOND  # half of the base, by the draw


def test_any_other_end_begins_the_count_of_give_backs_anew() -> None:
    assert follows(failed("PROVIDER_TIMEOUT"), replace(FRESH, give_backs=3)).standing.give_backs == 0


def test_waits_double_up_to_the_cap() -> None:
    policy = replace(POLICY, max_retries=20)
    waits = []
    for failures in range(8):
        decision = follows(failed("PROVIDER_TIMEOUT"), replace(FRESH, failures=failures), policy)
        assert isinstance(decision, TryAgain)
        waits.append(decision.delay / SECOND)
    assert waits == [1, 2, 4, 8, 16, 30, 30, 30]


def test_a_providers_wish_is_honoured_up_to_the_cap() -> None:
    within = follows(failed("PROVIDER_RATE_LIMIT", retry_after=40 * SECOND))
    beyond = follows(failed("PROVIDER_RATE_LIMIT", retry_after=4000 * SECOND))
    assert isinstance(within, TryAgain)
    assert isinstance(beyond, TryAgain)
    assert (within.delay, beyond.delay) == (40 * SECOND, 60 * SECOND)


def test_a_job_older_than_its_longest_life_is_not_tried_again() -> None:
    decision = follows(LOST, replace(FRESH, age=61 * SECOND), replace(POLICY, life_max=60 * SECOND))
    assert isinstance(decision, Finish)
    assert decision.error is not None
    assert decision.error.code == "TIMEOUT"
