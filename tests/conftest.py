"""Servers, databases and key prefixes for every test that wants them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support import servers


@pytest.fixture(scope="session")
def servers_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with servers.quick_directory(otherwise=tmp_path_factory.getbasetemp()) as directory:
        yield directory


@pytest.fixture(scope="session")
def postgres_server(servers_directory: Path) -> Iterator[servers.PostgresServer]:
    with servers.postgres_running(servers_directory / "postgres") as server:
        yield server


@pytest.fixture(scope="session")
def valkey_server(servers_directory: Path) -> Iterator[servers.ValkeyServer]:
    with servers.valkey_running(servers_directory / "valkey") as server:
        yield server


@pytest.fixture
async def database_url(postgres_server: servers.PostgresServer) -> AsyncIterator[str]:
    """A migrated database of this test's own."""
    async with postgres_server.migrated_database() as url:
        yield url


@pytest.fixture
async def empty_database_url(postgres_server: servers.PostgresServer) -> AsyncIterator[str]:
    """A database of this test's own without tables."""
    async with postgres_server.empty_database() as url:
        yield url


@pytest.fixture
def redis_url(valkey_server: servers.ValkeyServer) -> str:
    """A Redis that all tests share; keep to `redis_prefix`."""
    return valkey_server.url


@pytest.fixture
def redis_prefix(valkey_server: servers.ValkeyServer) -> str:
    return valkey_server.fresh_prefix()
