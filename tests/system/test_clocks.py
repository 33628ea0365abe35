"""Services and executors whose clocks are an hour off, in both directions, change nothing.

The database's clock is this machine's, and so is that of the caller in these tests; all others are wrong.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from job_api.client import AttemptView, Client, JobEvent, JobEventKind, JobView
from shared.domain.attempts import AttemptOutcome
from shared.domain.identity import JobId
from shared.domain.jobs import JobState
from tests.support import wrong_clock
from tests.support.many_jobs import counted
from verification.stage import stack

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
OFFSETS = {"api": -HOUR, "worker": HOUR, "executor-1": HOUR, "executor-2": -HOUR}
LEASE = 3 * SECOND
TIMEOUT = 12 * SECOND
GRACE = 3 * SECOND
BACKOFF = 2 * SECOND
SOON = 15 * SECOND
"""Far more than the loops need, and far less than the clocks are off."""
LIMIT_SECONDS = 90.0
JOBS_MAX = 5
"""Of one executor, so that eight jobs need both."""
SETTINGS = {
    **stack.SHORT_TIMES,
    "BATON_QUEUES__DRILL__AT_ONCE": str(JOBS_MAX),
    "BATON_QUEUES__DRILL__BACKOFF_SECONDS": str(BACKOFF.total_seconds()),
    "BATON_JOB_TYPES__SYNTHETIC__TIMEOUT_SECONDS": str(TIMEOUT.total_seconds()),
    "BATON_LOOPS__REAPER_SECONDS": "0.3",
    "BATON_LOOPS__START_BY_SECONDS": "0.5",
    "BATON_LOOPS__RETENTION_SECONDS": "0.5",
    "BATON_LOG_FORMAT": "json",
}


@pytest.fixture(scope="module", params=["", pytest.param("the other way round", marks=pytest.mark.prove)])
def offsets(request: pytest.FixtureRequest) -> Mapping[str, timedelta]:
    return {name: -offset if request.param else offset for name, offset in OFFSETS.items()}


@pytest.fixture(scope="module")
def engine(
    tmp_path_factory: pytest.TempPathFactory, offsets: Mapping[str, timedelta]
) -> Iterator[stack.Stack]:
    environment = {**SETTINGS, **wrong_clock.environment(offsets)}
    with stack.running(tmp_path_factory.mktemp("clocks"), executors=2, environment=environment) as running:
        yield running


@pytest.fixture
def client(engine: stack.Stack) -> Iterator[Client]:
    with Client(engine.control) as client:
        yield client


def now() -> datetime:
    return datetime.now(UTC)


def until(client: Client, job_id: JobId, fits: Callable[[JobView], bool]) -> JobView:
    deadline = time.monotonic() + LIMIT_SECONDS
    while not fits(job := client.get(job_id)):
        assert time.monotonic() < deadline, job
        time.sleep(0.1)
    return job


def ended(client: Client, job_id: JobId) -> JobView:
    return until(client, job_id, lambda job: job.ended)


def events(client: Client, job_id: JobId) -> Sequence[JobEvent]:
    return [each.what for each in client.watch(job_id) if isinstance(each.what, JobEvent)]


def attempts(client: Client, job_id: JobId) -> Sequence[AttemptView]:
    return list(client.attempts(job_id))


def end_of(attempt: AttemptView) -> datetime:
    assert attempt.end_time is not None
    return attempt.end_time


def times_logged(engine: stack.Stack, name: str) -> Sequence[datetime]:
    lines = [json.loads(each) for each in engine.log(name).splitlines() if each.startswith("{")]
    return [datetime.fromisoformat(each["timestamp"]) for each in lines]


@pytest.mark.parametrize("name", OFFSETS)
def test_the_clock_of_each_process_really_is_off(
    engine: stack.Stack, offsets: Mapping[str, timedelta], name: str
) -> None:
    written = datetime.fromtimestamp((engine.directory / "logs" / f"{name}.log").stat().st_mtime, UTC)
    times = times_logged(engine, name)

    assert times
    assert all(abs(each - written - offsets[name]) < HOUR / 4 for each in times)


def test_the_reaper_leaves_leases_alone_that_outlive_their_lease_time_three_times(client: Client) -> None:
    work = {"items": 5, "duration_seconds": (3.3 * LEASE).total_seconds()}
    jobs = [client.create_job("synthetic", work) for _ in range(8)]
    states = [ended(client, job.job_id).state for job in jobs]
    ran = [each for job in jobs for each in attempts(client, job.job_id)]

    assert states == [JobState.SUCCEEDED] * 8
    assert [each.outcome for each in ran] == [AttemptOutcome.SUCCEEDED] * 8
    assert len({each.incarnation_id for each in ran}) == 2


def test_every_time_that_a_watcher_is_told_is_the_databases(client: Client) -> None:
    before = now()
    job = client.create_job("synthetic", {"items": 2})
    told = events(client, job.job_id)
    seen = client.get(job.job_id)
    after = now()

    times = [seen.create_time, *(each.event_time for each in told), seen.finish_time]
    assert all(each is not None and before - SECOND <= each <= after + SECOND for each in times)
    assert [each.event_time for each in told] == sorted(each.event_time for each in told)


def test_a_retry_backs_off_by_the_databases_time(client: Client) -> None:
    job = client.create_job("synthetic", {"items": 2, "fail_attempts": [1, 2]})
    told = events(client, job.job_id)
    ran = attempts(client, job.job_id)

    assert [each.outcome for each in ran] == [AttemptOutcome.FAILED] * 2 + [AttemptOutcome.SUCCEEDED]
    due = [each.next_attempt_time for each in told if each.kind is JobEventKind.RETRY_SCHEDULED]
    for failures, (failed, planned, following) in enumerate(zip(ran, due, ran[1:], strict=False), start=1):
        assert planned is not None
        assert timedelta(0) <= planned - end_of(failed) <= BACKOFF * 2 ** (failures - 1)
        assert timedelta(0) <= following.start_time - planned < SOON


def test_a_job_starts_at_its_run_time_by_the_databases_clock(client: Client) -> None:
    run_time = now() + 3 * SECOND
    soon = client.create_job("synthetic", {}, run_time=run_time)
    past_for_others = client.create_job("synthetic", {}, run_time=now() + HOUR / 2)
    past_for_the_database = client.create_job("synthetic", {}, run_time=now() - HOUR / 2)

    started = ended(client, soon.job_id).start_time
    assert started is not None
    assert timedelta(0) <= started - run_time < SOON
    assert ended(client, past_for_the_database.job_id).state is JobState.SUCCEEDED
    assert client.get(past_for_others.job_id).state is JobState.QUEUED
    client.cancel(past_for_others.job_id)


def test_a_start_by_time_passes_by_the_databases_clock(client: Client) -> None:
    past_for_others = client.create_job("synthetic", {}, start_by_time=now() + HOUR / 2)
    passed = client.create_job("synthetic", {}, start_by_time=now() - HOUR / 2)

    assert ended(client, past_for_others.job_id).state is JobState.SUCCEEDED
    late = ended(client, passed.job_id)
    assert (late.state, late.attempt) == (JobState.CANCELLED, 0)
    assert late.finish_time is not None
    assert late.finish_time - late.create_time < SOON


def test_a_time_out_ends_an_attempt_when_it_is_over(client: Client) -> None:
    job = client.create_job("synthetic", {"duration_seconds": 60})
    until(client, job.job_id, lambda job: job.failure_count == 1)
    (first, *_) = attempts(client, job.job_id)
    client.cancel(job.job_id)

    assert first.outcome is AttemptOutcome.TIMED_OUT
    assert TIMEOUT - SECOND <= end_of(first) - first.start_time <= TIMEOUT + GRACE


def test_a_cancel_is_answered_at_once_and_its_times_are_the_databases(client: Client) -> None:
    before = now()
    job = client.create_job("synthetic", {"duration_seconds": 60})
    until(client, job.job_id, lambda job: job.state is JobState.RUNNING)
    client.cancel(job.job_id)
    cancellation = ended(client, job.job_id).cancellation

    assert cancellation is not None
    assert not cancellation.forced
    times = [cancellation.request_time, cancellation.seen_time, cancellation.stop_time]
    assert all(each is not None and before - SECOND <= each <= now() + SECOND for each in times)


def test_a_key_keeps_standing_for_its_job(engine: stack.Stack, client: Client) -> None:
    key = "a-key-of-wrong-clocks"
    job = client.create_job("synthetic", {}, idempotency_key=key)
    ended(client, job.job_id)
    again = client.create_job("synthetic", {}, idempotency_key=key)

    assert (again.job_id, again.replayed) == (job.job_id, True)
    kept_a_day = (
        "select count(*) from idempotency_keys where expire_time"
        " between clock_timestamp() + interval '23:55' and clock_timestamp() + interval '24:00'"
        f" and key = '{key}'"
    )
    assert asyncio.run(counted(engine.database_url, kept_a_day)) == 1


def test_a_lost_executor_is_missed_after_one_and_a_half_lease_times(
    engine: stack.Stack, client: Client
) -> None:
    jobs = [client.create_job("synthetic", {"items": 8, "duration_seconds": 8}) for _ in range(8)]
    for job in jobs:  # a lease that was not accepted yet would be given back, and not lost
        until(client, job.job_id, lambda job: job.progress > 0)
    killed = now()
    engine.until_restarted(engine.kill("executor-1"))
    states = [ended(client, job.job_id).state for job in jobs]
    lost = [
        each
        for job in jobs
        for each in attempts(client, job.job_id)
        if each.outcome is not AttemptOutcome.SUCCEEDED
    ]

    assert states == [JobState.SUCCEEDED] * 8
    assert lost
    assert {each.outcome for each in lost} == {AttemptOutcome.LOST}
    for each in lost:
        assert 1.5 * LEASE - LEASE / 2 <= end_of(each) - killed <= 1.5 * LEASE + SOON
