"""Random commands on the real core and on a small model of it: after each of them both must tell the same.

Everything is real but the passing of time, which stands still between commands. All rows about all jobs are
compared, so a command that the model takes for a stale one must have changed none of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest
from hypothesis import HealthCheck, Verbosity, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.support.core_commands import open_core
from tests.support.core_comparison import CoreUnderTest
from tests.support.core_machine import CoreMachine
from tests.support.frozen_time import FrozenTime
from tests.support.servers import PostgresServer, ValkeyServer

PLAIN = settings(
    deadline=None,
    database=None,
    stateful_step_count=50,
    suppress_health_check=list(HealthCheck),
    verbosity=Verbosity.normal,
)


@pytest.fixture
def machine(postgres_server: PostgresServer, valkey_server: ValkeyServer) -> Iterator[type[CoreMachine]]:
    """Machines that follow each other on one database and one Redis prefix."""

    async def connect(stack: AsyncExitStack) -> CoreUnderTest:
        database_url = await stack.enter_async_context(postgres_server.migrated_database())
        core = await stack.enter_async_context(
            open_core(database_url, valkey_server.url, prefix=valkey_server.fresh_prefix())
        )
        time = FrozenTime(core.transactions)
        await time.freeze()
        return CoreUnderTest(runner, core, time)

    # With a factory of its own the runner leaves the thread's event loop to the other tests.
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        stack = AsyncExitStack()
        under_test = runner.run(connect(stack))
        yield type("BoundMachine", (CoreMachine,), {"under_test": under_test})
        runner.run(stack.aclose())


def test_the_core_does_what_its_model_says(machine: type[CoreMachine]) -> None:
    run_state_machine_as_test(machine, settings=settings(PLAIN, max_examples=40, derandomize=True))


@pytest.mark.prove
@pytest.mark.timeout(3_600)
def test_the_core_does_what_its_model_says_for_a_long_time(
    machine: type[CoreMachine],
) -> None:
    run_state_machine_as_test(machine, settings=settings(PLAIN, max_examples=1_500, stateful_step_count=80))
