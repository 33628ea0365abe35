"""The whole engine as `baton dev` runs it, in a directory of its own: to be called, killed and stopped."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from uuid import uuid4

from shared.command.embedded_postgres import DATABASE, SUPERUSER
from shared.command.launcher import launched
from verification.stage import tokens
from verification.stage.freezing import frozen_alone
from verification.stage.processes import BATON
from verification.unmet import Unmet

START_SECONDS_MAX = 90.0
STOP_SECONDS_MAX = 60.0
RESTART_SECONDS_MAX = 60.0
_POLL_SECONDS = 0.05

SHORT_TIMES: Mapping[str, str] = MappingProxyType(
    {
        "BATON_QUEUES__DRILL__LEASE_SECONDS": "3",
        "BATON_QUEUES__DRILL__BACKOFF_SECONDS": "0.2",
        "BATON_JOB_TYPES__SYNTHETIC__GRACE_SECONDS": "3",
    }
)
"""A tenth of what ships, so that protocol bounds pass while somebody waits."""

_SECRET = "BATON_TOKEN_SECRET"

_MARK = "VERIFIED_STACK"
"""A variable whose value is in the environment of everything that a stack starts, and of nothing else."""


@dataclass(frozen=True, slots=True)
class Life:
    """A process as `stack.json` tells of it.

    Attributes:
        process_id: None between two lives.
        restarts: How often it died and was started again.
    """

    name: str
    process_id: int | None
    address: str
    restarts: int


class StackFault(Unmet):
    """It does not start, or does not end whole, so nothing more can be tried on it."""


class Stack:
    """A running `baton dev`.

    Attributes:
        settings: `BATON_*` variables of all its processes.
    """

    def __init__(
        self, process: subprocess.Popen[str], directory: Path, mark: str, settings: Mapping[str, str]
    ) -> None:
        self.process = process
        self.directory = directory
        self.settings = settings
        self._mark = mark
        self._lines: list[str] = []
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, name="output of baton dev", daemon=True)
        self._reader.start()

    @property
    def control(self) -> str:
        """Where JobControl listens."""
        return self.life("api").address

    @property
    def execution(self) -> str:
        """Where ExecutionService listens."""
        return self.life("worker").address

    @property
    def database_url(self) -> str:
        password = (self.directory / "postgres.password").read_text().strip()
        return f"postgresql://{SUPERUSER}:{password}@{self.life('postgres').address}/{DATABASE}"

    @property
    def redis_url(self) -> str:
        password = (self.directory / "valkey.conf").read_text().split()[-1]
        return f"redis://:{password}@{self.life('valkey').address}/0"

    def token(self, subject: str, scopes: Collection[str] = tokens.EVERYTHING) -> str | None:
        """Sign a token that this stack lets through; None where it asks for none, and everyone is `local`."""
        secret = self.settings.get(_SECRET)
        return None if secret is None else tokens.signed(secret, subject, scopes)

    @property
    def output(self) -> str:
        """What `baton dev` has printed so far."""
        return "".join(self._lines)

    def lives(self) -> list[Life]:
        """Everything that was started, in the order of its start."""
        told = json.loads((self.directory / "stack.json").read_text())["processes"]
        return [Life(each["name"], each["pid"], each["address"] or "", each["restarts"]) for each in told]

    def life(self, name: str) -> Life:
        return next(each for each in self.lives() if each.name == name)

    def process_id(self, name: str) -> int:
        """Return the process of that name; wait for it if it is between two lives."""
        self._until(lambda: self.life(name).process_id is not None, RESTART_SECONDS_MAX, f"{name} to run")
        found = self.life(name).process_id
        assert found is not None
        return found

    def kill(self, name: str, sent: signal.Signals = signal.SIGKILL) -> Life:
        """Send a signal to a process, and return its life up to then, for `until_restarted`."""
        process_id = self.process_id(name)
        life = self.life(name)
        os.kill(process_id, sent)
        return life

    def until_restarted(self, before: Life) -> Life:
        """Wait until a process lives again after the life that has ended."""

        def again() -> bool:
            now = self.life(before.name)
            return now.restarts > before.restarts and now.process_id is not None

        self._until(again, RESTART_SECONDS_MAX, f"{before.name} to be started again")
        return self.life(before.name)

    @contextmanager
    def held_down(self, name: str) -> Iterator[None]:
        """Kill a process, and keep it from being started again while the block runs.

        The supervisor is paused meanwhile, so no other process is started again either.
        """
        life = self.life(name)
        process_id = self.process_id(name)
        with frozen_alone(self.process.pid):
            os.kill(process_id, signal.SIGKILL)
            self._until(lambda: _has_ended(process_id), STOP_SECONDS_MAX, f"{name} to end")
            yield
        self.until_restarted(life)

    def log(self, name: str) -> str:
        """What a process has printed."""
        return (self.directory / "logs" / f"{name}.log").read_text(errors="replace")

    def until_ready(self) -> None:
        if not self._ready.wait(START_SECONDS_MAX) or self.process.poll() is not None:
            raise StackFault(f"the stack does not come up:\n{self.output}")

    def stop(self) -> int:
        """Stop it as Ctrl-C does, and return its exit code. Idempotent."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            exit_code = self.process.wait(timeout=STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()  # what it started dies with it
            self.process.wait()
            raise StackFault(f"the stack does not stop:\n{self.output}") from None
        self._reader.join(timeout=STOP_SECONDS_MAX)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return exit_code

    def leftovers(self) -> list[str]:
        """The command lines of its processes that still run, and its directory if a server holds it."""
        held = [] if _is_free(self.directory / "lock") else [f"a server holds {self.directory}"]
        return [*marked(self._mark), *held]

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.append(line)
            if line.startswith("ready"):
                self._ready.set()
        self.process.wait()
        self._ready.set()  # whoever waits is to see that it has ended

    def _until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait for what another process does, of which no event tells."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise Unmet(f"waited in vain for {what}:\n{self.output}")
            time.sleep(_POLL_SECONDS)


@contextmanager
def running(
    directory: Path, *, executors: int = 1, environment: Mapping[str, str] = SHORT_TIMES
) -> Iterator[Stack]:
    """Run a stack on free ports until the block ends, and make sure then that nothing of it is left.

    Args:
        directory: Its data directory; made if need be.
        environment: Settings of all its processes; no other `BATON_*` variable reaches them.
    """
    with starting(directory, executors=executors, environment=environment) as stack:
        stack.until_ready()
        yield stack


@contextmanager
def starting(directory: Path, *, executors: int, environment: Mapping[str, str]) -> Iterator[Stack]:
    """As `running`, for whoever waits by itself until the stack is ready."""
    mark, marks = marking()
    process = subprocess.Popen(
        launched(  # so that it ends with this process, however that ends
            [
                *(*BATON, "dev", "--data-dir", str(directory)),
                *("--executors", str(executors), "--control-port", "0", "--execution-port", "0"),
            ]
        ),
        env={**clean_environment(), **marks, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,  # a terminal's Ctrl-C would reach it too, and the second SIGINT cuts its stop short
    )
    stack = Stack(process, directory, mark, environment)
    try:
        yield stack
    finally:
        exit_code = stack.stop()
    left = stack.leftovers()
    if exit_code != 0 or left:
        raise StackFault(f"the stack ended with {exit_code}, and left {left}:\n{stack.output}")


def clean_environment() -> dict[str, str]:
    """The environment of this process without what is meant for the engine."""
    return {name: value for name, value in os.environ.items() if not name.startswith("BATON_")}


def marking() -> tuple[str, Mapping[str, str]]:
    """A new mark, and the variable that hands it on to all that a process starts."""
    mark = uuid4().hex
    return mark, {_MARK: mark}


def marked(mark: str) -> list[str]:
    """The command lines of running processes that inherited a mark.

    Postgres writes its title over its environment, so its processes are not found so; while one of them
    lives, the data directory is held.
    """
    wanted = f"{_MARK}={mark}".encode()
    return [_command_line(each) for each in Path("/proc").glob("[0-9]*") if wanted in _environment(each)]


def _environment(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:  # it has ended
        return b""


def _command_line(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return process.name


def _has_ended(process_id: int) -> bool:
    """Whether it does nothing any more; what it leaves is its parent's to take away."""
    try:
        status = Path(f"/proc/{process_id}/stat").read_text()
    except OSError:
        return True
    return status.rpartition(")")[2].split()[0] == "Z"


def _is_free(lock: Path) -> bool:
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
