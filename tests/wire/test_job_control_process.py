from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
import structlog
from pydantic import RedisDsn

from job_api import app
from job_api.settings import ApiSettings
from shared.catalog.catalog import CatalogFault
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_control_pb2_grpc
from shared.runtime.faults import StartupFault
from shared.runtime.settings import load
from tests.support.control_service import SECRET, bearing, control_running

NOWHERE = "postgresql://nobody@127.0.0.1:1/nothing"
REDIS = RedisDsn("redis://")


@asynccontextmanager
async def api_process(environment: Mapping[str, str]) -> AsyncIterator[asyncio.subprocess.Process]:
    """An API process of its own, which is gone at the end."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("BATON_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "job_api"),
        env={**inherited, **environment},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def address_of(process: asyncio.subprocess.Process) -> str:
    """Read the log until it says where the process serves."""
    assert process.stderr is not None
    async with asyncio.timeout(30):
        while line := (await process.stderr.readline()).decode():
            if found := re.search(r'"address": "([^"]+)".*server\.started', line):
                return found[1]
    raise AssertionError("the process ended before it served")


async def test_a_process_serves_until_it_is_told_to_stop_and_tells_its_watchers(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    environment = {
        "BATON_DATABASE_URL": database_url,
        "BATON_REDIS_URL": redis_url,
        "BATON_REDIS_PREFIX": redis_prefix,
        "BATON_CONTROL_ADDRESS": "127.0.0.1:0",
        "BATON_QUEUES__DRILL__LEASE_SECONDS": "3",
    }
    async with api_process(environment) as process:
        address = await address_of(process)
        async with grpc.aio.insecure_channel(address) as channel:
            stub: Any = job_control_pb2_grpc.JobControlStub(channel)
            made = await stub.CreateJob(pb.CreateJobRequest(job_type="synthetic", input=b"{}"))
            watch = stub.WatchJob(pb.WatchJobRequest(job_id=made.job.job_id))
            assert (await watch.read()).event.number == 1
            process.send_signal(signal.SIGTERM)
            assert (await watch.read()).ended.reason == pb.WATCH_END_REASON_DRAINING
        async with asyncio.timeout(20):
            _, errors = await process.communicate()
    assert process.returncode == 0
    assert b"Traceback" not in errors


async def test_a_process_that_lacks_settings_says_which_and_ends() -> None:
    async with api_process({"BATON_LIMITS__LABELS_MAX": "-1"}) as process:
        _, errors = await process.communicate()
    assert process.returncode == 2
    lines = errors.decode().splitlines()
    assert [line.split()[1].rstrip(":") for line in lines] == [
        "BATON_DATABASE_URL",
        "BATON_REDIS_URL",
        "BATON_LIMITS__LABELS_MAX",
    ]


async def test_an_address_that_others_reach_needs_identity() -> None:
    settings = ApiSettings(database_url=NOWHERE, redis_url=REDIS, control_address="0.0.0.0:0")
    with pytest.raises(StartupFault, match="BATON_TOKEN_SECRET"):
        await app.run(settings)


async def test_job_types_that_do_not_fit_keep_the_service_from_starting() -> None:
    settings = ApiSettings(database_url=NOWHERE, redis_url=REDIS, job_modules=("no_such_package",))
    with pytest.raises(CatalogFault, match="no_such_package"):
        await app.run(settings)


async def test_with_a_secret_only_tokens_are_let_in(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    async with control_running(
        database_url, redis_url, redis_prefix, control_address="0.0.0.0:0", token_secret=SECRET
    ) as control:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await control.stub.ListJobs(pb.ListJobsRequest())
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        await control.stub.ListJobs(pb.ListJobsRequest(), metadata=bearing("ada"))


async def test_queues_that_nothing_feeds_are_told_at_the_start(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    with structlog.testing.capture_logs() as lines:
        async with control_running(database_url, redis_url, redis_prefix):
            pass
    (told,) = [line for line in lines if line["event"] == "queues.unfed"]
    assert told["queues"] == ["ai-background", "ai-interactive", "maintenance"]


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {
        "BATON_DATABASE_URL": NOWHERE,
        "BATON_REDIS_URL": "redis://127.0.0.1/0",
        "BATON_JOB_MODULES": "one, two.three",
        "BATON_JOB_TYPES__SYNTHETIC__GRACE_SECONDS": "3",
        "BATON_LOOPS__REAPER_SECONDS": "0.5",
        "BATON_TOKEN_SECRET": SECRET,
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    settings = load(ApiSettings)
    assert settings.job_modules == ("one", "two.three")
    assert settings.job_types["synthetic"].grace_seconds == 3
    assert settings.loops.reaper_seconds == 0.5
    assert SECRET not in repr(settings)


@pytest.mark.parametrize(
    "changes",
    [
        {"loops": {"reaper_seconds": 31}},
        {"limits": {"request_bytes_max": 1000}},
        {"watch": {"no_such_setting": 1}},
        {"redis_prefix": ""},
        {"idempotency_hours": 0},
    ],
)
def test_settings_that_contradict_what_is_promised_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        ApiSettings(database_url=NOWHERE, redis_url=REDIS, **changes)  # type: ignore[arg-type]
