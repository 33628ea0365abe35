"""Services that run pass every check of the protocol, and services that lie do not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from shared.gen.baton.v1 import job_pb2
from tests.support.lies import (
    AcceptsWhateverIsReported,
    AddsCredits,
    CallsEveryLeaseLost,
    CancelsInWordsOnly,
    DropsReasons,
    IgnoresFilters,
    KeepsNoLease,
    LosesAnEvent,
    NeverTellsTheEnd,
    ShortensInputs,
    TakesReplaysForNew,
    TellsEverythingTwice,
)
from tests.support.lying_services import Truth, passing_on
from verification.cases.catalog import CASES
from verification.conformance.services.catalog import THEMES
from verification.conformance.services.check import Check, Theme
from verification.conformance.services.checks import (
    cancelling,
    errors,
    fencing,
    heartbeats,
    keys,
    listing,
    output,
    reports,
    sessions,
    stopping,
    watching,
)
from verification.conformance.services.running import check_services
from verification.conformance.services.target import Target
from verification.evidence.history import History
from verification.outcomes import Outcome
from verification.stage import stack
from verification.stage.executors import executors_of

QUICK = {
    **stack.SHORT_TIMES,
    "BATON_WATCH__KEEP_ALIVE_SECONDS": "1",
    "BATON_LOOPS__REAPER_SECONDS": "0.5",
}
EXIT_FAILED = 1


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stack.Stack]:
    with stack.running(tmp_path_factory.mktemp("stack"), executors=0, environment=QUICK) as running:
        yield running


def verify(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "shared.command.main", "verify", *arguments],
        env=stack.clean_environment(),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


async def outcomes(control: str, execution: str, *checks: Check, seconds: float = 30) -> list[Outcome]:
    """Run some checks, whatever their theme."""
    chosen = [Theme("chosen", checks, executing=bool(execution))]
    found = check_services(control, execution, themes=chosen, check_seconds=seconds)
    return [each async for each in found]


async def failures(running: stack.Stack, lie: Truth, *checks: Check, seconds: float = 30) -> Sequence[str]:
    """What checks find wrong with services that lie."""
    async with AsyncExitStack() as opened:
        control, execution = [
            await opened.enter_async_context(passing_on(each, lie))
            for each in (running.control, running.execution)
        ]
        return [each.failure for each in await outcomes(control, execution, *checks, seconds=seconds)]


def test_the_services_pass_every_check(running: stack.Stack, tmp_path: Path) -> None:
    done = verify(
        *("--target", running.control, "--execution", running.execution),
        *("--json", "--record", str(tmp_path / "record")),
    )

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["outcomes"]
    assert len(found) == sum(len(each.checks) for each in THEMES)
    unjudged = [each["name"] for each in found if each["unjudged"]]
    assert unjudged == ["serving: callers without a token are refused"]
    written = (tmp_path / "record" / "conformance.jsonl").read_text().splitlines()
    kinds = {json.loads(line)["kind"] for line in written}
    assert kinds == {"call", "told", "frame"}


async def test_no_job_of_a_run_is_left_for_an_executor(running: stack.Stack) -> None:
    left: list[str] = []

    async def leaves_a_job(target: Target) -> None:
        """Leave a job that waits."""
        left.append((await target.due_job()).job_id)

    async def finds_it_cancelled(target: Target) -> None:
        """Find the job that was left."""
        assert (await target.control.get(left[0])).state == job_pb2.JOB_STATE_CANCELLED

    found = await outcomes(running.control, "", leaves_a_job, finds_it_cancelled)
    assert [each.failure for each in found] == ["", ""]


async def test_without_an_execution_service_its_checks_are_left_out(running: stack.Stack) -> None:
    chosen = [cancelling.THEME, stopping.THEME]
    found = [each async for each in check_services(running.control, themes=chosen)]

    assert all(each.passed for each in found)
    left_out = [each for each in found if each.unjudged]
    assert len(left_out) == len(stopping.THEME.checks)
    assert {each.unjudged for each in left_out} == {"left out: no ExecutionService was named"}


async def test_where_another_executor_takes_the_jobs_nothing_is_judged_wrongly(
    running: stack.Stack, tmp_path: Path
) -> None:
    async with executors_of(
        running.execution,
        History(),
        directory=tmp_path,
        environment={**stack.clean_environment(), **stack.SHORT_TIMES},
    ) as executors:
        await executors.start("other")
        checks = [*reports.THEME.checks, *fencing.THEME.checks, *stopping.THEME.checks]
        found = await outcomes(running.control, running.execution, *checks)

    assert [each.failure for each in found if not each.passed] == []
    assert "other executors take the jobs" in {each.unjudged for each in found}


def test_services_that_are_not_there_are_told_in_one_line() -> None:
    done = verify("--target", "127.0.0.1:1")

    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr == "baton: JobControl at 127.0.0.1:1: the service can't be reached\n"


def test_another_service_than_the_one_that_was_named_is_told_in_one_line(running: stack.Stack) -> None:
    done = verify("--target", running.execution)

    assert done.returncode == 8
    assert done.stderr.startswith(f"baton: JobControl at {running.execution}: the service answers ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--execution", "127.0.0.1:1"), "--execution is checked beside a JobControl, so it needs --target"),
        (
            ("--target", "127.0.0.1:1", "--case", "2"),
            "--target is checked alone, without --case and --executor",
        ),
        (
            ("--target", "127.0.0.1:1", "--repeat", "3"),
            "--repeat is said of cases, and --target and --executor run none",
        ),
        (("--case", "1", "--case", "99"), f"there is no case 99; there are 1 to {len(CASES)}"),
        (("--case", "2", "--part", "x"), "there is no part 'x'; there are computes, holds the interpreter"),
        (("--part", "computes"), "--part names a part of a case, so it needs --case"),
        (
            ("--case", "1", "--seconds", "10"),
            "--seconds says how long case 10 lasts, which is not to be run",
        ),
        (("--case", "1", "--record", __file__), f"nothing can be written to {__file__}: File exists"),
    ],
)
def test_what_does_not_go_together_is_told_in_one_line(arguments: Sequence[str], line: str) -> None:
    done = verify(*arguments)

    assert (done.returncode, done.stderr) == (2, f"baton: {line}\n")


# Lies, and the checks that find them out


LIES: Sequence[tuple[type[Truth], Check]] = (
    (DropsReasons, errors.a_job_that_is_not_there_is_not_found),
    (DropsReasons, keys.another_body_is_refused_and_names_the_job),
    (DropsReasons, sessions.a_bad_hello_is_refused_by_its_field),
    (TakesReplaysForNew, keys.the_same_key_and_body_give_the_same_job),
    (TakesReplaysForNew, keys.racing_calls_make_one_job),
    (LosesAnEvent, watching.a_watch_begins_after_a_number),
    (TellsEverythingTwice, watching.events_are_numbered_without_gaps_and_the_stream_says_its_end),
    (TellsEverythingTwice, output.pieces_come_to_watchers_once_and_in_order),
    (NeverTellsTheEnd, watching.a_watch_begins_after_a_number),
    (IgnoresFilters, listing.a_list_is_narrowed_by_every_field),
    (CancelsInWordsOnly, cancelling.a_waiting_job_is_cancelled_at_once),
    (AddsCredits, sessions.nobody_gets_more_leases_than_credits),
    (AcceptsWhateverIsReported, fencing.a_token_of_nobody_is_lost_on_every_way),
    (AcceptsWhateverIsReported, output.an_output_that_is_not_what_was_said_is_not_taken),
    (AcceptsWhateverIsReported, stopping.once_cancelled_never_succeeded),
    (KeepsNoLease, sessions.the_end_of_a_stream_is_no_goodbye),
    (CallsEveryLeaseLost, heartbeats.heartbeats_are_echoed_and_carry_progress),
    (ShortensInputs, sessions.a_lease_carries_what_its_executor_needs),
)


async def test_what_passes_true_answers_on_passes_the_checks(running: stack.Stack) -> None:
    checks = {check for _, check in LIES}

    assert set(await failures(running, Truth(), *checks)) == {""}


@pytest.mark.parametrize(("lie", "check"), LIES, ids=[f"{each.__name__}-{of.__name__}" for each, of in LIES])
async def test_a_service_that_lies_is_found_out(running: stack.Stack, lie: type[Truth], check: Check) -> None:
    (failure,) = await failures(running, lie(), check)

    assert failure


async def test_a_check_that_hangs_fails_and_the_next_one_runs(running: stack.Stack) -> None:
    class SaysNothing(Truth):
        def responses(self, method: str, message: bytes) -> Sequence[bytes]:
            return [] if method == "WatchJob" else [message]

    hanging = watching.a_quiet_watch_says_that_it_lives
    found = await failures(running, SaysNothing(), hanging, keys.racing_calls_make_one_job, seconds=2)

    assert found == ["what it waited for did not come in time", ""]
