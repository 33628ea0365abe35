"""Cancels and time-outs of the whole engine: through its processes' deaths, and against who ignores them."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from job_api.client import AttemptView, Client, JobEvent, JobEventKind, JobView
from shared.domain.attempts import AttemptOutcome
from shared.domain.identity import JobId
from shared.domain.jobs import Cancellation, JobState
from tests.support.patience.definitions import GRACE, TIMEOUT
from verification.evidence.ledger import Ledger
from verification.stage import stack

SOON = timedelta(seconds=5)
"""More than the loops need on a busy machine."""
ROOM = 3
LONG = {"duration_seconds": 60}
LIMIT_SECONDS = 60.0
SETTINGS = {
    **stack.SHORT_TIMES,
    "BATON_JOB_MODULES": "tests.support.patience",
    "BATON_QUEUES__DRILL__AT_ONCE": str(ROOM),
    "BATON_LOOPS__REAPER_SECONDS": "0.3",
    "BATON_LOG_FORMAT": "json",
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stack.Stack]:
    with stack.running(tmp_path_factory.mktemp("stops"), executors=1, environment=SETTINGS) as running:
        yield running


@pytest.fixture
def client(engine: stack.Stack) -> Iterator[Client]:
    with Client(engine.control) as client:
        yield client


def phases(ledger: Ledger, job_id: JobId) -> Sequence[str]:
    return ledger.phases_of(str(job_id))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger")


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def ended(client: Client, job_id: JobId) -> JobView:
    until(lambda: client.get(job_id).ended)
    return client.get(job_id)


def running(client: Client, job_type: str, ledger: Ledger, **work: object) -> JobId:
    """Create a job, and wait until its handler runs."""
    job_id = client.create_job(job_type, {**LONG, **work, "ledger": str(ledger.path)}).job_id
    until(lambda: phases(ledger, job_id) == ["started"])
    return job_id


def attempts(client: Client, job_id: JobId) -> Sequence[AttemptView]:
    return list(client.attempts(job_id))


def outcomes(client: Client, job_id: JobId) -> list[AttemptOutcome | None]:
    return [each.outcome for each in client.attempts(job_id)]


def cancellation_of(job: JobView) -> Cancellation:
    assert job.state is JobState.CANCELLED
    assert job.cancellation is not None
    return job.cancellation


def stopped_after(cancellation: Cancellation) -> timedelta:
    assert cancellation.stop_time is not None
    return cancellation.stop_time - cancellation.request_time


def kills_logged(engine: stack.Stack) -> list[tuple[str, str]]:
    """Whom the keeper killed a process for, and what they had ignored."""
    lines = [json.loads(each) for each in engine.log("executor-1").splitlines() if each.startswith("{")]
    killed = [each for each in lines if each["event"] == "handler_process.killed"]
    return [(each["job_id"], each["stop_ignored"]) for each in killed]


def until_killed(engine: stack.Stack, job_id: JobId, ignored: str) -> None:
    """Wait until the keeper has killed a process for a job; the reaper may have taken its lease before."""
    until(lambda: str(job_id) in dict(kills_logged(engine)))
    assert dict(kills_logged(engine))[str(job_id)] in {ignored, "lost"}


def has_all_its_room(client: Client, ledger: Ledger) -> bool:
    """Tell whether as many jobs run at once as may, by running so many."""
    jobs = [running(client, "patient", ledger) for _ in range(ROOM)]
    for each in jobs:
        client.cancel(each)
    return [ended(client, each).attempt for each in jobs] == [1] * ROOM


def test_a_cancel_outlives_both_services_and_is_delivered_by_the_next_ones(
    engine: stack.Stack, client: Client, ledger: Ledger
) -> None:
    job_id = running(client, "patient", ledger)
    engine.kill("worker", signal.SIGSTOP)  # so that it delivers nothing
    client.cancel(job_id)
    lives = [engine.kill("worker"), engine.kill("api")]
    for life in lives:
        engine.until_restarted(life)
    job = ended(client, job_id)

    cancellation = cancellation_of(job)
    assert (cancellation.forced, cancellation.seen_time is None) == (False, False)
    assert outcomes(client, job_id) == [AttemptOutcome.CANCELLED]
    assert phases(ledger, job_id) == ["started", "cancelled"]
    kinds = [each.what.kind for each in client.watch(job_id) if isinstance(each.what, JobEvent)]
    assert kinds[2:] == [
        JobEventKind.CANCEL_REQUESTED,
        JobEventKind.CANCEL_SEEN,
        JobEventKind.ATTEMPT_ENDED,
        JobEventKind.CANCELLED,
    ]


def test_a_cancel_outlives_its_executor_and_nobody_starts_the_job_again(
    engine: stack.Stack, client: Client, ledger: Ledger
) -> None:
    job_id = running(client, "patient", ledger)
    engine.kill("executor-1", signal.SIGSTOP)  # so that it sees nothing
    client.cancel(job_id)
    engine.until_restarted(engine.kill("executor-1"))
    job = ended(client, job_id)

    cancellation = cancellation_of(job)
    assert (cancellation.forced, cancellation.seen_time) == (False, None)
    assert (job.loss_count, outcomes(client, job_id)) == (0, [AttemptOutcome.CANCELLED])
    assert phases(ledger, job_id) == ["started"]


def test_a_cancel_reaches_its_executor_without_redis(
    engine: stack.Stack, client: Client, ledger: Ledger
) -> None:
    job_id = running(client, "patient", ledger)
    engine.kill("valkey", signal.SIGSTOP)
    client.cancel(job_id)
    job = ended(client, job_id)
    engine.kill("valkey", signal.SIGCONT)

    cancellation = cancellation_of(job)
    assert (cancellation.forced, cancellation.seen_time is None) == (False, False)
    assert phases(ledger, job_id) == ["started", "cancelled"]
    assert has_all_its_room(client, ledger)


def test_a_cancel_that_an_executor_does_not_answer_is_forced_and_what_it_says_later_changes_nothing(
    engine: stack.Stack, client: Client, ledger: Ledger
) -> None:
    job_id = running(client, "brisk", ledger)
    engine.kill("executor-1", signal.SIGSTOP)
    client.cancel(job_id)
    job = ended(client, job_id)
    engine.kill("executor-1", signal.SIGCONT)

    cancellation = cancellation_of(job)
    assert (cancellation.forced, cancellation.seen_time) == (True, None)
    assert GRACE <= stopped_after(cancellation) <= GRACE + SOON
    assert has_all_its_room(client, ledger)
    until(lambda: phases(ledger, job_id) == ["started", "cancelled"])
    assert client.get(job_id) == job


def test_who_ignores_a_cancel_is_killed_and_its_neighbours_run_again_unmarked(
    engine: stack.Stack, client: Client, ledger: Ledger
) -> None:
    neighbour = running(client, "patient", ledger, duration_seconds=5)
    job_id = running(client, "brisk", ledger, ignore_cancel=True)
    client.cancel(job_id)
    job = ended(client, job_id)

    cancellation = cancellation_of(job)
    assert (cancellation.forced, cancellation.seen_time is None) == (True, False)
    assert stopped_after(cancellation) <= GRACE + SOON
    assert outcomes(client, job_id) == [AttemptOutcome.CANCELLED]
    until_killed(engine, job_id, "cancel")
    assert_given_back_unmarked(client, neighbour)
    assert has_all_its_room(client, ledger)


def test_who_ignores_the_end_of_its_time_is_killed_and_its_neighbours_run_again_unmarked(
    engine: stack.Stack, client: Client, ledger: Ledger
) -> None:
    neighbour = running(client, "patient", ledger, duration_seconds=6)
    job_id = running(client, "hasty", ledger, ignore_cancel=True)
    job = ended(client, job_id)

    (attempt,) = attempts(client, job_id)
    assert (job.state, job.failure_count, job.loss_count) == (JobState.FAILED, 1, 0)
    assert (job.error and job.error.code, attempt.outcome) == ("TIMEOUT", AttemptOutcome.TIMED_OUT)
    assert attempt.end_time is not None
    assert TIMEOUT <= attempt.end_time - attempt.start_time <= TIMEOUT + GRACE + SOON
    until_killed(engine, job_id, "timeout")
    assert_given_back_unmarked(client, neighbour)
    assert has_all_its_room(client, ledger)


def test_a_handler_that_holds_the_interpreter_lock_is_stopped_by_the_end_of_its_time_too(
    client: Client, ledger: Ledger
) -> None:
    job_id = running(client, "hasty", ledger, work="blocking")
    job = ended(client, job_id)

    assert (job.error and job.error.code, job.failure_count) == ("TIMEOUT", 1)
    assert outcomes(client, job_id) == [AttemptOutcome.TIMED_OUT]
    assert has_all_its_room(client, ledger)


def test_a_job_that_ends_its_process_runs_alone_then_and_fails_after_its_losses(
    client: Client, ledger: Ledger
) -> None:
    neighbour = running(client, "patient", ledger, duration_seconds=3)
    job = ended(client, client.create_job("brisk", {"exit_attempts": [1, 2, 3, 4]}).job_id)
    first, *alone = attempts(client, job.job_id)

    assert (job.state, job.loss_count, job.failure_count) == (JobState.FAILED, 3, 0)
    assert job.error is not None
    assert job.error.code == "EXECUTOR_LOST"
    assert (first.outcome, first.suspect) == (AttemptOutcome.GIVEN_BACK, True)
    assert [each.outcome for each in alone] == [AttemptOutcome.LOST] * 3
    assert ended(client, neighbour).state is JobState.SUCCEEDED
    assert [each.suspect for each in attempts(client, neighbour)] == [True, False]


def assert_given_back_unmarked(client: Client, job_id: JobId) -> None:
    job = ended(client, job_id)
    assert (job.state, job.failure_count, job.loss_count) == (JobState.SUCCEEDED, 0, 0)
    assert outcomes(client, job_id) == [AttemptOutcome.GIVEN_BACK, AttemptOutcome.SUCCEEDED]
    assert not any(each.suspect for each in client.attempts(job_id))
