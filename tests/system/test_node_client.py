"""A client in another language, which knows nothing but the protos, does both sides of a job."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.node_programs import NODE, PROGRAMS, install
from verification.stage import stack

LIMIT_SECONDS = 100


@pytest.fixture(scope="module")
def libraries() -> None:
    install()


@pytest.mark.usefixtures("libraries")
def test_a_node_program_creates_a_job_and_executes_it_over_a_session(tmp_path: Path) -> None:
    with stack.running(tmp_path / "stack", executors=0) as engine:
        done = subprocess.run(
            [NODE, "foreign_client.mjs", engine.control, engine.execution],
            cwd=PROGRAMS,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "succeeded, and the output is what was reported"


def test_its_lock_names_no_host_that_packages_come_from() -> None:
    lock = (PROGRAMS / "package-lock.json").read_text()

    assert '"resolved"' not in lock
    assert '"integrity"' in lock
