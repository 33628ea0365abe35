"""Every Redis that is on this machine: Valkey from its wheel, and Redis itself if it is installed."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis.asyncio import Redis

from shared.runtime.ids import new_secret
from shared.streams.connection import open_redis
from shared.streams.lease_streams import LeaseStreams
from shared.streams.wake_ups import WakeUps


@contextmanager
def redis_running(directory: Path) -> Iterator[str]:
    """Run the machine's own Redis."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        "redis-server",
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--dir",
        str(directory),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if "Ready to accept connections" in line:
                    break
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.terminate()


SERVERS = ["valkey", *(["redis"] if shutil.which("redis-server") else [])]


@pytest.fixture(scope="module", params=SERVERS)
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "valkey":
        yield request.getfixturevalue("valkey_server").url
    else:
        with redis_running(tmp_path_factory.mktemp("redis")) as address:
            yield address


@pytest.fixture
async def redis(url: str) -> AsyncIterator[Redis]:
    async with open_redis(url) as client:
        yield client


@pytest.fixture
def prefix() -> str:
    return f"baton:t{new_secret()}:"


@pytest.fixture
def streams(redis: Redis, prefix: str) -> LeaseStreams:
    return LeaseStreams(redis, prefix=prefix)


@pytest.fixture
def wake_ups(redis: Redis, prefix: str) -> WakeUps:
    return WakeUps(redis, prefix=prefix)
