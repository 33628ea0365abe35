"""The directory in which a stack keeps everything: held by one stack at a time, closed to other users.

lock               held by the stack and by every server below it
ports.json         where the embedded servers listen, the same at each start
postgres/          the database           postgres.password   its superuser's password
valkey/            the streams            valkey.conf         holds its password
logs/NAME.log      what each process prints
NAME.ready         made by an executor once it has a session
stack.json         what runs now
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from shared.runtime.faults import StartupFault

LOOPBACK = "127.0.0.1"

_LOCK_WAIT_SECONDS = 10.0
"""Servers whose supervisor was killed shut down by themselves; the next start waits so long for them."""
_LOCK_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """A data directory that this process holds.

    Attributes:
        lock: An open descriptor of the lock file. A server that inherits it keeps the directory held for as
            long as it lives, also after this process; so whoever holds the directory knows that no server
            of an earlier stack is left.
    """

    path: Path
    lock: int

    def port(self, name: str) -> int:
        """The server's remembered port; a new one if it has none yet or another program took it."""
        ports_file = self.path / "ports.json"
        ports: dict[str, int] = json.loads(ports_file.read_text()) if ports_file.exists() else {}
        if name not in ports or not is_free(ports[name]):
            ports[name] = free_port()
            write_atomically(ports_file, json.dumps(ports))
        return ports[name]


@contextmanager
def hold(path: Path) -> Iterator[DataDirectory]:
    """Make the directory if need be, and hold it.

    Raises:
        StartupFault: Another stack holds it, or it is not this user's to write in.
    """
    path = path.resolve()
    lock = _open_lock(path)
    try:
        _lock(lock, path)
        os.truncate(lock, 0)
        os.write(lock, f"{os.getpid()}\n".encode())
        yield DataDirectory(path, lock)
    finally:
        os.close(lock)


def _open_lock(path: Path) -> int:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StartupFault(f"the data directory {path} can't be used: {error.strerror}") from error


def _lock(lock: int, path: Path) -> None:
    deadline = time.monotonic() + _LOCK_WAIT_SECONDS
    while not _try_lock(lock):
        holder = os.pread(lock, 32, 0).decode().strip()
        if _is_alive(holder) or time.monotonic() > deadline:
            raise StartupFault(
                f"another stack (process {holder or 'unknown'}) uses the data directory {path}"
            )
        time.sleep(_LOCK_POLL_SECONDS)


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_alive(process_id: str) -> bool:
    try:
        os.kill(int(process_id), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True


def free_port() -> int:
    """Find a loopback port that nobody uses at present."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def is_free(port: int) -> bool:
    """Whether a server can listen on this loopback port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a closed connection does not count
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def write_atomically(path: Path, text: str) -> None:
    """Replace the file so that a reader finds the old text or the new, whole; for its owner only."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    beside.replace(path)
