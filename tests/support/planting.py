"""Copies of the source with a fault in them, to see whether `baton verify` finds it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verification.stage.stack import clean_environment

REPOSITORY = Path(__file__).resolve().parents[2]
PATCHES = REPOSITORY / "tests" / "planted_faults"

_SOURCES = ("shared", "job_api", "job_worker", "verification")
_RUN_SECONDS_MAX = 600.0


@dataclass(frozen=True, slots=True)
class Fault:
    """A patch, and what the suite is to say of it.

    Attributes:
        name: Of the patch.
        breaks: Names of invariants and of parts, of which at least one must be named as broken.
        case: Finds it.
        parts: Of the case; none for all.
    """

    name: str
    breaks: Sequence[str]
    case: int
    parts: Sequence[str] = ()

    @property
    def patch(self) -> Path:
        return PATCHES / f"{self.name}.patch"


def plant(fault: Fault, directory: Path) -> Path:
    """Copy the source, apply the patch to the copy, and return where it is.

    Raises:
        CalledProcessError: The patch does not fit any more.
    """
    copy = directory / fault.name
    for name in _SOURCES:
        shutil.copytree(REPOSITORY / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(["git", "apply", str(fault.patch)], cwd=copy, check=True)
    return copy


def verified(copy: Path, fault: Fault, *, seed: int) -> dict[str, Any]:
    """Run the part of the suite that is to find the fault, and return its report."""
    run = subprocess.run(
        [
            *(sys.executable, "-m", "shared.command.main", "verify", "--json", "--seed", str(seed)),
            *("--case", str(fault.case), *(word for part in fault.parts for word in ("--part", part))),
        ],
        cwd=copy,
        env={**clean_environment(), "PYTHONPATH": str(copy), "PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        text=True,
        timeout=_RUN_SECONDS_MAX,
        check=False,
    )
    report: dict[str, Any] = json.loads(run.stdout)
    return report


def named(report: dict[str, Any]) -> set[str]:
    """The invariants, and the parts by themselves, that a report names as broken."""
    outcomes = report["outcomes"]
    invariants = {broken["name"] for outcome in outcomes for broken in outcome["broken_invariants"]}
    return invariants | {outcome["name"] for outcome in outcomes if outcome["failure"]}
