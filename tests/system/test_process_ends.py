"""How processes end: exit codes, and lines instead of tracebacks for what is to be expected."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

FAULTY = "raise StartupFault(['the first fault', 'the second fault'])"
FAULTY_IN_A_LOOP = """
    async def step(): raise StartupFault('a fault in a loop')
    async with background(Loop('loop', step, Timetable(timedelta(seconds=1)))):
        await asyncio.Event().wait()
"""
SIGNALLED = """
    signalled = asyncio.create_task(until_signalled())
    await asyncio.sleep(0)  # now it listens
    print('up', flush=True)
    print((await signalled).name, flush=True)
"""
ANOTHER_ROOMS_FAULT = """
    class CatalogFault(Exception):
        faults = ('job type "x" has no handler',)
    raise CatalogFault
"""
PROGRAM = """
import asyncio, sys
from datetime import timedelta
from shared.runtime.faults import StartupFault
from shared.runtime.loops import Loop, Timetable, background
from shared.runtime.processes import begin, run, until_signalled
from shared.runtime.settings import ProcessSettings

async def main():
    begin(ProcessSettings)
    {body}

sys.exit(run(main))
"""
LIMIT_SECONDS = 20


def started(body: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.replace("{body}", body.strip())],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(body: str) -> tuple[int, str, str]:
    with started(body) as process:
        output, errors = process.communicate(timeout=LIMIT_SECONDS)
        return process.returncode, output, errors


def baton(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("BATON_")}
    return subprocess.run(
        [sys.executable, "-m", "shared.command.main", *arguments],
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )


def test_a_main_that_returns_nothing_ends_with_zero_and_a_number_is_the_exit_code() -> None:
    assert ended("pass") == (0, "", "")
    assert ended("return 3") == (3, "", "")


def test_each_fault_is_a_line_of_its_own() -> None:
    assert ended(FAULTY) == (2, "", "baton: the first fault\nbaton: the second fault\n")


def test_a_fault_of_a_room_that_may_not_import_the_runtime_is_told_alike() -> None:
    assert ended(ANOTHER_ROOMS_FAULT) == (2, "", 'baton: job type "x" has no handler\n')


def test_a_fault_inside_a_loop_comes_out_as_itself() -> None:
    exit_code, _, errors = ended(FAULTY_IN_A_LOOP)

    assert exit_code == 2
    assert errors.endswith("baton: a fault in a loop\n")
    assert "Traceback" not in errors


def test_a_bug_keeps_its_traceback() -> None:
    exit_code, _, errors = ended("raise LookupError('a bug')")

    assert exit_code == 1
    assert "Traceback" in errors


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signalled_process_goes_on_to_its_clean_end(sent: signal.Signals) -> None:
    with started(SIGNALLED) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(sent)
        output, _ = process.communicate(timeout=LIMIT_SECONDS)

    assert (process.returncode, output) == (0, f"{sent.name}\n")


def test_a_second_interrupt_cuts_a_stop_short() -> None:
    body = SIGNALLED + "\n    await asyncio.Event().wait()\n"
    with started(body) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "SIGINT\n"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LIMIT_SECONDS)

    assert process.returncode == 130


def test_the_command_says_which_setting_it_lacks() -> None:
    done = baton("migrate")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "baton: BATON_DATABASE_URL is required and not set\n"


def test_the_command_says_that_the_database_is_away() -> None:
    done = baton("migrate", BATON_DATABASE_URL="postgresql://nobody@127.0.0.1:1/nothing")

    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith("(PLATFORM_UNAVAILABLE)\n")


def test_ctrl_c_while_the_command_is_loaded_leaves_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt")
    done = baton("list", PYTHONPATH=str(tmp_path))

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_dev_refuses_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = baton("dev", "--data-dir", str(tmp_path), "--control-port", str(port))

    assert done.returncode == 2
    assert f"baton: port {port} is in use by another program: choose another by --control-port" in done.stderr
