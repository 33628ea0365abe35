"""The whole engine for as long as a block runs, in a temporary directory; nothing of it is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shared.command.launcher import launched

STOP_SECONDS_MAX = 30.0
"""The services drain and Postgres checkpoints; what takes longer is killed."""

_KEPT_VARIABLES = frozenset({"BATON_PG_BIN", "BATON_VALKEY_BIN"})
"""Where servers are to be found. All other settings are meant for a stack of the person's own."""

_LAST_LINES = 5


class StackFailed(Exception):
    """The engine did not come up, or did not stop as it should; the message is its last word."""


@contextmanager
def running_stack() -> Iterator[str]:
    """Run `baton dev` on free ports while the block runs, and yield where JobControl listens.

    Raises:
        StackFailed: It did not come up, or did not stop cleanly after a block that ended well.
    """
    with tempfile.TemporaryDirectory(prefix="baton-demo-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        process = _started(directory)
        last_lines = deque[str](maxlen=_LAST_LINES)
        try:
            _until_ready(process, last_lines)
            yield _control_address(directory)
        finally:
            exit_code = _stop(process)
        if exit_code != 0:
            raise StackFailed(f"the stack stopped with exit code {exit_code}: {_last_word(last_lines)}")


def _started(directory: Path) -> subprocess.Popen[str]:
    baton = [sys.executable, "-m", "shared.command.main"]
    dev = ["dev", "--data-dir", str(directory), "--control-port", "0", "--execution-port", "0"]
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("BATON_") or name in _KEPT_VARIABLES
    }
    return subprocess.Popen(
        launched([*baton, *dev]),  # it ends with this process, however this process ends
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # Ctrl-C is the demo's, which then stops the stack in its own time
    )


def _until_ready(process: subprocess.Popen[str], last_lines: deque[str]) -> None:
    """Read the output until it says so; then keep reading, so that the pipe never fills up."""
    assert process.stdout is not None
    for line in process.stdout:
        last_lines.append(line.strip())
        if line.startswith("ready"):
            threading.Thread(
                target=last_lines.extend, args=(map(str.strip, process.stdout),), daemon=True
            ).start()
            return
    raise StackFailed(f"the stack does not come up: {_last_word(last_lines)}")


def _control_address(directory: Path) -> str:
    stack = json.loads((directory / "stack.json").read_text())
    address: str = next(each["address"] for each in stack["processes"] if each["name"] == "api")
    return address


def _stop(process: subprocess.Popen[str]) -> int:
    """Stop it and return its exit code; an impatient second Ctrl-C kills it."""
    process.send_signal(signal.SIGTERM)
    try:
        return process.wait(timeout=STOP_SECONDS_MAX)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        return process.wait()


def _last_word(lines: deque[str]) -> str:
    said = [line.removeprefix("baton: ") for line in lines if line]
    return said[-1] if said else "it said nothing"
