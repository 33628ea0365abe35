"""The suite passes on the engine as it is: a short part of it, with the same seed each time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from verification.cases.catalog import CASES
from verification.command import HELP
from verification.invariants.catalog import INVARIANTS
from verification.stage.stack import clean_environment

SEED = 7
LIMIT_SECONDS = 300
OF_OTHER_CASES = {"stale reports", "stale pieces", "same report, same answer", "one report", "found again"}
"""Need scripted executors, or gaps that are held open."""


def verified(*arguments: str) -> dict[str, Any]:
    """Run `baton verify`, and return its report."""
    run = subprocess.run(
        [*(sys.executable, "-m", "shared.command.main", "verify", "--seed", str(SEED), "--json"), *arguments],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    report: dict[str, Any] = json.loads(run.stdout)
    return report


@pytest.mark.timeout(LIMIT_SECONDS + 10)
def test_every_job_succeeds_once_while_everything_is_killed(tmp_path: Path) -> None:
    report = verified("--case", "10", "--seconds", "20", "--record", str(tmp_path))

    assert report["passed"]
    under_fire, backlog = report["outcomes"]
    assert under_fire["notes"]["jobs"] >= 100
    assert under_fire["notes"]["kills"] >= 2
    assert backlog["notes"]["backlog"] >= 300
    judged = {each["name"] for each in report["invariants"] if each["facts"] and not each["broken"]}
    assert judged == {each.name for each in INVARIANTS} - OF_OTHER_CASES
    assert all(each.stat().st_size for each in tmp_path.glob("**/history.jsonl"))


@pytest.mark.timeout(LIMIT_SECONDS + 10)
def test_a_handler_that_lets_nobody_work_keeps_its_lease() -> None:
    report = verified("--case", "2")

    assert report["passed"]
    assert [each["group"] for each in report["outcomes"]] == ["case 2 busy handler"] * 2


@pytest.mark.timeout(LIMIT_SECONDS + 10)
@pytest.mark.parametrize("reached", ["lock", "parts"])
def test_ctrl_c_stops_the_stack_whether_it_starts_or_works(tmp_path: Path, reached: str) -> None:
    place = tmp_path / "stack-2"
    run = subprocess.Popen(
        [*(sys.executable, "-m", "shared.command.main", "verify", "--case", "2"), "--record", str(tmp_path)],
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,  # a terminal sends Ctrl-C to the whole group
    )
    while not (place / reached).exists():
        assert run.poll() is None, run.communicate()
        time.sleep(0.05)
    os.killpg(run.pid, signal.SIGINT)
    printed, wrong = run.communicate(timeout=LIMIT_SECONDS)

    assert (run.returncode, wrong) == (130, "")
    assert len(printed.splitlines()) <= 1  # that a stack starts
    assert not (place / "stack.json").exists()  # a stack that was cut short leaves it


def test_a_stack_that_does_not_start_is_a_failure_that_says_why(tmp_path: Path) -> None:
    (tmp_path / "stack-2" / "postgres").mkdir(parents=True)
    (tmp_path / "stack-2" / "postgres" / "PG_VERSION").write_text("of another time")

    with pytest.raises(AssertionError) as raised:
        verified("--case", "2", "--record", str(tmp_path))

    assert "FAILED  stack: starts and stops" in str(raised.value)
    assert "Traceback" not in str(raised.value)


def test_the_help_names_every_case() -> None:
    told = " ".join(HELP.split())

    assert [each for each in CASES if f"{each.number} {each.name}" not in told] == []
