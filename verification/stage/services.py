"""One more replica of ExecutionService beside the stack's own."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from shared.command.launcher import launched
from verification.stage.stack import Stack, clean_environment
from verification.unmet import Unmet

_READY_SECONDS_MAX = 60.0
_STOP_SECONDS_MAX = 40.0
_POLL_SECONDS = 0.1
_HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Replica:
    """Where it listens, and its process."""

    address: str
    process_id: int


@asynccontextmanager
async def another_worker(stack: Stack, directory: Path, **settings: str) -> AsyncIterator[Replica]:
    """Run `baton worker` on the stack's servers until the block ends.

    Args:
        directory: For its log.
        settings: `BATON_*` variables by their own names.
    """
    port = _free_port()
    with (directory / "worker-2.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *launched([sys.executable, "-m", "shared.command.main", "worker"]),
            env={
                **clean_environment(),
                "BATON_DATABASE_URL": stack.database_url,
                "BATON_REDIS_URL": stack.redis_url,
                "BATON_EXECUTION_ADDRESS": f"{_HOST}:{port}",
                **settings,
            },
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        await _accepts(port)
        yield Replica(f"{_HOST}:{port}", process.pid)
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _STOP_SECONDS_MAX)
        except TimeoutError:
            process.kill()
            await process.wait()


async def _accepts(port: int) -> None:
    try:
        async with asyncio.timeout(_READY_SECONDS_MAX):
            while not await _connects(port):  # noqa: ASYNC110 - it has no event of ours
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        raise Unmet(f"a second worker did not listen within {_READY_SECONDS_MAX:.0f} s") from None


async def _connects(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(_HOST, port)
    except OSError:
        return False
    writer.close()
    return True


def _free_port() -> int:
    with socket.socket() as free:
        free.bind((_HOST, 0))
        return int(free.getsockname()[1])
