"""The checks of executors: what they say of the one that ships, of one in another language, and of liars.

All of them are judged at the same time, since most of the time is spent in waiting for protocol bounds.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection, Coroutine, Mapping, Sequence
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from tests.support.lying_executor import Lie
from tests.support.node_programs import NODE, PROGRAMS, install
from verification.command import register
from verification.conformance.executors.catalog import CHECKS
from verification.conformance.executors.check import Check, Feature
from verification.conformance.executors.running import BUILT_IN, run_checks
from verification.conformance.executors.tested import Command
from verification.outcomes import Outcome

BATON = typer.Typer()
BATON.callback()(lambda: None)
register(BATON)

QUICK = {"BATON_GRACE_SECONDS": "1", "BATON_RECONNECT_SECONDS_MAX": "0.3"}
TRIES_MAX = 5
NODE_LACKS = frozenset({Feature.DEAFNESS, Feature.BLOCKING, Feature.EXITS})

CAUGHT: Mapping[Lie, tuple[str, str]] = {
    Lie.ONE_HEARTBEAT: ("accepts a lease at once and keeps it alive", "heartbeats were due; 1 had come"),
    Lie.LOOSE_HASH: ("reports outputs with their canonical hash", "the hash of "),
    Lie.LOST_REPORT: ("drops what it is told is lost", "a lease that was lost was reported"),
    Lie.LATE_START: ("takes no more leases once it is to stop", "must be given back; it was a success"),
    Lie.OLD_INCARNATION: ("is another incarnation after each start", "the same incarnation id"),
    Lie.FORGOTTEN_REPORT: ("reports again after a broken stream", "is not among those held"),
    Lie.NO_MOVE: ("moves when the service drains", "no hello came within"),
    Lie.UNSEEN_CANCEL: ("stops when cancelled", "the cancel was not acknowledged"),
    Lie.NO_PAUSE: ("keeps trying while the service is unavailable", "without pauses"),
    Lie.PIECES_ONCE: ("sends pieces again until they are recorded", "no piece was sent again"),
    Lie.PIECES_FROM_ZERO: ("numbers its pieces", "the numbers of 300 pieces are [0, 1, "),
    Lie.NO_TIMEOUT: ("ends what is out of time", "no report came"),
    Lie.CREDITS_TWICE: ("begins each session with no credits", "fit and 1 is held, but 4 credits were given"),
    Lie.NO_GOODBYE: ("gives back what it can not finish", "was no goodbye"),
}
"""The check that catches each lie, and what it says."""
CATCHING = [name for name, _ in CAUGHT.values()]

Findings = Mapping[str, Sequence[Outcome]]


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """The outcomes of every executor, by its name; those of liars by their lie."""
    install()
    directory = tmp_path_factory.mktemp("executors")
    return asyncio.run(_all_judged(directory))


async def _all_judged(directory: Path) -> Findings:
    middle = len(CHECKS) // 2
    caught = [check for check in CHECKS if check.name in CATCHING]
    node = Command((NODE, str(PROGRAMS / "executor.mjs")), QUICK)
    runs: Mapping[str, Coroutine[None, None, Sequence[Outcome]]] = {
        "built-in": _judged(BUILT_IN, directory / "first", CHECKS[:middle]),
        "built-in, too": _judged(BUILT_IN, directory / "second", CHECKS[middle:]),
        "node": _judged(node, directory / "node", CHECKS, without=NODE_LACKS),
        Lie.NONE: _judged(_liar(Lie.NONE), directory / Lie.NONE, caught),
        **{lie: _caught(lie, directory) for lie in CAUGHT if lie is not Lie.NO_PAUSE},
    }
    found: dict[str, Sequence[Outcome]] = dict(zip(runs, await asyncio.gather(*runs.values()), strict=True))
    # How fast it tries is measured, and a machine that is busy with others makes pauses of its own.
    for _ in range(TRIES_MAX):
        found[Lie.NO_PAUSE] = await _caught(Lie.NO_PAUSE, directory)
        if _faults(found[Lie.NO_PAUSE]):
            break
    return found


async def _caught(lie: Lie, directory: Path) -> Sequence[Outcome]:
    name, _ = CAUGHT[lie]
    return await _judged(_liar(lie), directory / lie, [check for check in CHECKS if check.name == name])


async def _judged(
    command: Command, directory: Path, checks: Sequence[Check], *, without: Collection[Feature] = ()
) -> Sequence[Outcome]:
    return [each async for each in run_checks(command, directory, checks=checks, without=without)]


def _liar(lie: Lie) -> Command:
    return Command((sys.executable, "-m", "tests.support.lying_executor", lie))


def _verify(*arguments: str) -> Result:
    return CliRunner().invoke(BATON, ["verify", *arguments])


def _faults(outcomes: Sequence[Outcome]) -> Mapping[str, str]:
    return {each.name: each.failure for each in outcomes if each.failure}


def test_the_executor_that_ships_passes_every_check(findings: Findings) -> None:
    outcomes = [*findings["built-in"], *findings["built-in, too"]]

    assert _faults(outcomes) == {}
    assert [each.name for each in outcomes] == [check.name for check in CHECKS]
    assert not any(each.unjudged for each in outcomes)


def test_an_executor_in_javascript_passes_every_check_but_those_of_what_it_lacks(findings: Findings) -> None:
    outcomes = findings["node"]

    assert _faults(outcomes) == {}
    unjudged = [each.name for each in outcomes if each.unjudged]
    assert unjudged == [check.name for check in CHECKS if NODE_LACKS.intersection(check.needs)]


@pytest.mark.parametrize("lie", CAUGHT)
def test_a_lie_is_caught_by_the_check_that_looks_for_it(lie: Lie, findings: Findings) -> None:
    [outcome] = findings[lie]

    name, said = CAUGHT[lie]
    assert outcome.name == name
    assert said in outcome.failure


def test_without_a_lie_those_checks_pass(findings: Findings) -> None:
    assert _faults(findings[Lie.NONE]) == {}
    assert len(findings[Lie.NONE]) == len(CAUGHT)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--executor", "no-such-program at-all"], "the executor's command is not found: no-such-program"),
        (["--executor", "'"], "the executor's command can't be read: No closing quotation"),
        (["--executor", ""], "the executor's command is empty"),
        (["--without", "pieces"], "--without says what an executor lacks, so it needs --executor"),
        (["--executor", "true", "--without", "wings"], "there is no feature 'wings'; there are progress, "),
    ],
    ids=lambda each: "" if isinstance(each, str) else " ".join(each),
)
def test_what_can_not_be_judged_is_said_in_one_line(arguments: Sequence[str], said: str) -> None:
    ended = _verify(*arguments)

    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"baton: {said}")
    assert ended.stderr.count("\n") == 1


def test_an_executor_that_does_not_start_fails_once_and_is_not_judged_further() -> None:
    ended = _verify("--executor", "sh -c 'echo no licence; exit 3'")

    assert ended.exit_code == 1
    assert "no hello came; it has ended, and its log ends with:\n        no licence" in ended.stdout
    assert f"0 of {len(CHECKS)} passed, {len(CHECKS) - 1} not judged" in ended.stdout


def test_an_executor_that_ends_without_a_word_is_said_to_have_told_nothing() -> None:
    assert "no hello came; it has ended, and its log is empty" in _verify("--executor", "false").stdout
