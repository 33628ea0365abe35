"""Whatever process of the stack is killed while hundreds of jobs run comes back, and every job ends once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import many_jobs
from verification.stage import stack

JOBS = 500
WORK = {"items": 4, "duration_seconds": 2}
SETTINGS = {**stack.SHORT_TIMES, "BATON_QUEUES__DRILL__AT_ONCE": "250"}
RUNNING = "select count(*) from leases where accepted"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stack.Stack]:
    with stack.running(tmp_path_factory.mktemp("stack"), executors=2, environment=SETTINGS) as running:
        yield running


def children(process_id: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()]


def kill_a_handler_process(running: stack.Stack) -> None:
    os.kill(children(running.process_id("executor-1"))[0], signal.SIGKILL)


async def run_jobs_and_kill(running: stack.Stack, name: str) -> None:
    before = await many_jobs.counted(running.database_url, many_jobs.AFTERWARDS["succeeded"])
    await many_jobs.create(running.control, JOBS, WORK, name=f"kill-{name}")
    await many_jobs.until(running.database_url, RUNNING, JOBS // 5, seconds=60)
    if name == "handler":
        kill_a_handler_process(running)
    else:
        life = running.kill(name)
        await asyncio.to_thread(running.until_restarted, life)
    query = many_jobs.AFTERWARDS["succeeded"]
    await many_jobs.until(running.database_url, query, before + JOBS, seconds=120)
    assert await many_jobs.afterwards(running.database_url) == {
        "succeeded": before + JOBS,
        "projections": before + JOBS,
        "successful attempts": before + JOBS,
        "dispatch rows": 0,
        "leases": 0,
        "jobs whose events have gaps": 0,
    }


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["api", "worker", "executor-1", "handler", "valkey", "postgres"])
def test_a_killed_process_comes_back_and_all_jobs_end(running: stack.Stack, name: str) -> None:
    asyncio.run(run_jobs_and_kill(running, name))
