"""Servers, databases and key prefixes for every test that wants them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support import servers


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.PostgresServer]:
    with servers.postgres_running(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture(scope="session")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.ValkeyServer]:
    with servers.valkey_running(tmp_path_factory.mktemp("valkey")) as server:
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
