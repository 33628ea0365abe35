"""`baton top`, once for scripts, and in a terminal until Ctrl-C."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator

import pytest

from shared.domain.errors import PermissionDenied
from shared.gen.baton.v1 import job_pb2
from tests.support.remembering_control import Service, remembering_control
from tests.support.scripted_control import JOB, a_job

PATIENCE_SECONDS = 30
_IN_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C there reaches it
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture
def service() -> Iterator[Service]:
    with remembering_control() as running:
        running.servicer.job = a_job(
            state=job_pb2.JOB_STATE_FAILED, error=job_pb2.JobError(code="INPUT_BROKEN", message="no PDF")
        )
        yield running


def test_one_look_is_one_json_document_for_scripts(service: Service) -> None:
    result = service.run("top", "--json")

    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert [each["queue"] for each in told["queues"]] == ["drill"]
    assert [each["executorName"] for each in told["executors"]] == ["executor-1"]
    assert {each["jobId"] for each in told["failures"]} == {JOB}
    assert told["time"].endswith("Z")
    for request in service.servicer.listed:
        assert list(request.filter.states) == [job_pb2.JOB_STATE_FAILED]
        assert request.page_size == 20


@pytest.mark.parametrize("arguments", [("--once",), ()], ids=["once", "no terminal"])
def test_one_look_is_a_board_for_people(service: Service, arguments: tuple[str, ...]) -> None:
    result = service.run("top", *arguments)

    assert result.exit_code == 0
    for word in (
        "waiting 1200+",
        "drill",
        "executor-1",
        "document_import, synthetic",
        JOB,
        "INPUT_BROKEN: no PDF",
    ):
        assert word in result.stdout
    assert "\x1b" not in result.stdout
    assert not any(line.endswith(" ") for line in result.stdout.splitlines())


def test_who_is_no_admin_is_told_so_in_one_line(service: Service) -> None:
    service.servicer.refusal = PermissionDenied("jobs.admin")
    result = service.run("top", "--once")

    assert (result.exit_code, result.stdout) == (6, "")
    assert result.stderr == "baton: the scope jobs.admin is needed (PERMISSION_DENIED)\n"


def test_it_draws_into_a_terminal_follows_its_size_and_ends_well_with_ctrl_c(service: Service) -> None:
    with Terminal(service.address, "top", "--interval", "0.5") as terminal:
        terminal.until(b"executor-1")
        terminal.until(b"INPUT_BROKEN")
        terminal.resize(rows=40, columns=60)
        terminal.until(b"waiting 1200+")
        terminal.press(b"\x03")
        exit_code, text = terminal.ended()

    assert exit_code == 0
    assert b"\x1b[?1049h" in text  # a screen of its own
    assert text.rindex(b"\x1b[?1049l") > text.rindex(b"executor-1")  # and the old one again
    assert b"Traceback" not in text


def test_it_goes_on_showing_while_the_service_is_away(service: Service) -> None:
    with Terminal(service.address, "top", "--interval", "0.5") as terminal:
        terminal.until(b"executor-1")
        service.stop()
        terminal.until(b"no news")
        terminal.press(b"\x03")
        exit_code, text = terminal.ended()

    assert exit_code == 0
    assert b"Traceback" not in text


class Terminal:
    """A terminal with a command in it."""

    def __init__(self, address: str, *arguments: str) -> None:
        self._own, theirs = pty.openpty()
        self._text = b""
        self._seen = 0
        self.resize(rows=30, columns=100)
        self._process = subprocess.Popen(
            [sys.executable, "-c", _IN_TERMINAL, sys.executable, "-m", "shared.command.main", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "BATON_CONTROL_ADDRESS": address, "TERM": "xterm-256color"},
            start_new_session=True,
        )
        os.close(theirs)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._own)

    def resize(self, *, rows: int, columns: int) -> None:
        fcntl.ioctl(self._own, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys: bytes) -> None:
        os.write(self._own, keys)

    def until(self, text: bytes) -> None:
        """Wait until this is drawn, after what was waited for before."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while text not in self._text[self._seen :]:
            assert time.monotonic() < deadline, self._text[-2_000:]
            assert self._read(), self._text[-2_000:]
        self._seen = self._text.index(text, self._seen) + len(text)

    def ended(self) -> tuple[int, bytes]:
        while self._read():
            pass
        return self._process.wait(timeout=PATIENCE_SECONDS), self._text

    def _read(self) -> bool:
        """Take what has been drawn; False once the command has gone."""
        readable, _, _ = select.select([self._own], [], [], PATIENCE_SECONDS)
        try:
            part = os.read(self._own, 65536) if readable else b""
        except OSError:  # nobody has the other end any more
            return False
        self._text += part
        return bool(part)
