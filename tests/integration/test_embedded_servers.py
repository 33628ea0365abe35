"""The servers that come with the engine, as real processes in data directories of all kinds."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest
from redis import asyncio as redis

from shared.command import data_directory, embedded_postgres, embedded_valkey
from shared.command.launcher import Identity, usable_identity
from shared.runtime.faults import StartupFault
from tests.support import servers

AS_ROOT = os.geteuid() == 0
IDENTITIES = [Identity.UNMAPPED, Identity.NOBODY] if AS_ROOT else [Identity.SAME]

ANOTHER_STACK = """
import sys
from pathlib import Path
from tests.integration.test_embedded_servers import both_running
with both_running(Path(sys.argv[1])) as stack:
    print(stack.postgres_url, stack.redis_url, *stack.process_ids, flush=True)
    sys.stdin.read()
"""


@dataclass(frozen=True)
class Stack:
    postgres_url: str
    redis_url: str
    process_ids: tuple[int, ...] = ()


@contextmanager
def both_running(path: Path, identity: Identity | None = None) -> Iterator[Stack]:
    """Both servers in one data directory, durable, as `baton dev` has them."""
    with data_directory.hold(path) as held:
        postgres = embedded_postgres.prepare(held, identity=identity)
        valkey = embedded_valkey.prepare(held)
        with (
            servers.running(postgres.process, held) as first,
            servers.running(valkey.process, held) as second,
        ):
            yield Stack(postgres.url, valkey.url, (first.pid, second.pid))


@contextmanager
def another_stack(path: Path) -> Iterator[tuple[subprocess.Popen[str], Stack]]:
    """The same in a process of its own, which can be killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", ANOTHER_STACK, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        postgres_url, redis_url, *process_ids = process.stdout.readline().split()
        yield process, Stack(postgres_url, redis_url, tuple(map(int, process_ids)))


async def remember(stack: Stack) -> None:
    """Store one thing in each server."""
    connection = await asyncpg.connect(stack.postgres_url, ssl=False)
    await connection.execute("CREATE TABLE IF NOT EXISTS memory (n int)")
    await connection.execute("INSERT INTO memory VALUES (1)")
    await connection.close()
    async with redis.from_url(stack.redis_url) as client:
        await client.incr("memory")
        await client.waitaof(num_local=1, num_replicas=0, timeout=0)


async def remembered(stack: Stack) -> tuple[int, int]:
    """Count what each server has stored."""
    connection = await asyncpg.connect(stack.postgres_url, ssl=False)
    rows = await connection.fetchval("SELECT count(*) FROM memory")
    await connection.close()
    async with redis.from_url(stack.redis_url) as client:
        return rows, int(await client.get("memory") or 0)


@pytest.mark.parametrize("identity", IDENTITIES)
async def test_servers_start_in_a_closed_long_path_with_spaces_and_keep_their_data(
    tmp_path: Path, identity: Identity
) -> None:
    if identity is Identity.UNMAPPED and usable_identity() is not Identity.UNMAPPED:
        identity = Identity.NOBODY  # this machine allows no user namespaces
    closed = tmp_path / "closed to others"
    closed.mkdir(mode=0o700)
    path = closed / ("long " * 30) / "data"
    with both_running(path, identity) as first:
        await remember(first)

    with both_running(path, identity) as second:
        assert await remembered(second) == (1, 1)

    assert (first.postgres_url, first.redis_url) == (second.postgres_url, second.redis_url)


async def test_nothing_outlives_a_killed_stack_and_its_data_is_there_at_the_next_start(
    tmp_path: Path,
) -> None:
    with another_stack(tmp_path) as (process, stack):
        await remember(stack)
        process.kill()

    with both_running(tmp_path) as afterwards:
        assert not any(_is_running(process_id) for process_id in stack.process_ids)
        assert await remembered(afterwards) == (1, 1)


async def test_a_killed_servers_process_id_file_does_not_stop_the_next_start(tmp_path: Path) -> None:
    with both_running(tmp_path) as stack:
        await remember(stack)
        os.kill(stack.process_ids[0], signal.SIGKILL)
    # Its process id is another program's by now: this test's own parent.
    left_behind = tmp_path / "postgres" / "postmaster.pid"
    _, *rest = left_behind.read_text().splitlines()
    left_behind.write_text("\n".join([str(os.getppid()), *rest]) + "\n")

    with both_running(tmp_path) as afterwards:
        assert (await remembered(afterwards))[0] == 1


async def test_a_second_stack_in_the_same_directory_is_refused_in_one_line(tmp_path: Path) -> None:
    with another_stack(tmp_path) as (process, stack):
        expected = rf"^another stack \(process {process.pid}\) uses the data directory {tmp_path}$"
        with pytest.raises(StartupFault, match=expected), both_running(tmp_path):
            pass
        await remember(stack)
        assert await remembered(stack) == (1, 1)


async def test_a_making_of_the_cluster_that_was_cut_short_is_begun_again(tmp_path: Path) -> None:
    unfinished = tmp_path / "postgres.unfinished"
    unfinished.mkdir()
    (unfinished / "PG_VERSION").write_text("18\n")

    with both_running(tmp_path) as stack:
        await remember(stack)

    assert not unfinished.exists()


async def test_servers_are_durable_and_ask_for_their_passwords(tmp_path: Path) -> None:
    with both_running(tmp_path) as stack:
        connection = await asyncpg.connect(stack.postgres_url, ssl=False)
        shown = [await connection.fetchval(f"SHOW {name}") for name in ("fsync", "synchronous_commit")]
        await connection.close()
        async with redis.from_url(stack.redis_url) as client:
            kept = await client.config_get("appendonly")

        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(stack.postgres_url.replace("postgres:", "postgres:x"), ssl=False)
        async with redis.from_url("redis://" + stack.redis_url.rpartition("@")[2]) as stranger:
            with pytest.raises(redis.AuthenticationError):
                await stranger.ping()

    assert (shown, kept) == (["on", "on"], {"appendonly": "yes"})
    for secret in ("postgres.password", "valkey.conf"):
        assert (tmp_path / secret).stat().st_mode & 0o777 == 0o600


async def test_no_password_is_on_a_command_line(tmp_path: Path) -> None:
    with both_running(tmp_path) as stack:
        lines = [_command_line(process_id) for process_id in stack.process_ids]

    for url in (stack.postgres_url, stack.redis_url):
        password = url.rpartition("@")[0].rpartition(":")[2]
        assert not any(password in line for line in lines)


async def test_a_port_that_another_program_took_meanwhile_is_given_up(tmp_path: Path) -> None:
    with data_directory.hold(tmp_path) as held:
        remembered_port = held.port("postgres")
        assert held.port("postgres") == remembered_port

        stranger = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", remembered_port)
        async with stranger:
            moved = held.port("postgres")

        assert moved != remembered_port
        assert held.port("postgres") == moved


def _command_line(process_id: int) -> str:
    return Path(f"/proc/{process_id}/cmdline").read_text()


def _is_running(process_id: int) -> bool:
    stat = Path(f"/proc/{process_id}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"
