"""Both services by mutual TLS, called by the executor, both clients and the command."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from job_api.client import AsyncClient, CallFailed, Client, Tls, errors
from shared.domain.jobs import JobState
from shared.runtime.faults import StartupFault
from shared.runtime.settings import TlsSettings
from tests.support.certificates import LOOPBACK, Authority, Files
from tests.support.control_service import control_running
from tests.support.execution_service import Execution, execution_running
from tests.support.executors import an_executor

LARGE = json.dumps({"items": 1, "note": "n" * 200_000}).encode()
"""More than a lease carries."""
SCOPES = {"backend": ("jobs.read", "jobs.write"), "executor": ("jobs.execute",)}


class House:
    """An authority that both sides believe, and what it has signed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = Authority(directory)
        self.server = self.authority.signed("server", names=LOOPBACK)
        self.backend = self.authority.signed("backend", common_name="backend")
        self.executor = self.authority.signed("executor", common_name="executor")

    @property
    def service(self) -> TlsSettings:
        return TlsSettings(
            certificate_file=self.server.certificate,
            key_file=self.server.key,
            client_ca_file=self.authority.file,
            client_scopes=SCOPES,
        )

    def dialled_by(self, files: Files) -> TlsSettings:
        return TlsSettings(
            ca_file=self.authority.file, certificate_file=files.certificate, key_file=files.key
        )

    def tls(self, files: Files) -> Tls:
        return Tls(self.authority.file, files.certificate, files.key)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


async def test_both_clients_are_known_by_their_certificates(
    database_url: str, redis_url: str, redis_prefix: str, house: House
) -> None:
    async with control_running(database_url, redis_url, redis_prefix, tls=house.service) as control:
        address = control.opened.address
        async with AsyncClient(address, tls=house.tls(house.backend)) as client:
            job = await client.create_job("synthetic", {"items": 1})
            assert job.owner == "backend"

        def get() -> str:
            with Client(address, tls=house.tls(house.backend)) as blocking:
                return blocking.get(job.job_id).owner

        assert await asyncio.to_thread(get) == "backend"
        async with AsyncClient(address, tls=house.tls(house.executor)) as client:
            with pytest.raises(errors.PermissionDenied):
                await client.get(job.job_id)


async def test_the_command_dials_by_tls_as_the_environment_says(
    database_url: str, redis_url: str, redis_prefix: str, house: House
) -> None:
    told = {
        "BATON_TLS__CA_FILE": str(house.authority.file),
        "BATON_TLS__CERTIFICATE_FILE": str(house.backend.certificate),
        "BATON_TLS__KEY_FILE": str(house.backend.key),
    }
    async with control_running(database_url, redis_url, redis_prefix, tls=house.service) as control:
        address = control.opened.address
        done = await baton("submit", "synthetic", "--json", "--address", address, **told)
        assert json.loads(done[1])["owner"] == "backend"

        mistyped = await baton("list", "--address", address, **told, BATON_TLS__CAFILE="x")
        assert mistyped[0] == 2
        assert "BATON_TLS__CAFILE is no setting of this process; did you mean" in mistyped[2]
        missing = await baton("list", "--address", address, **{**told, "BATON_TLS__CA_FILE": "nowhere.pem"})
        assert missing[0] == 2
        assert missing[2] == "baton: nowhere.pem can't be read: No such file or directory\n"


async def baton(*arguments: str, **environment: str) -> tuple[int | None, str, str]:
    """Run the command, and return its exit code, output and errors."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "shared.command.main",
        *arguments,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors_ = await process.communicate()
    return process.returncode, output.decode(), errors_.decode()


async def test_a_client_that_does_not_believe_the_service_gets_no_answer(
    database_url: str, redis_url: str, redis_prefix: str, house: House
) -> None:
    house_elsewhere = Authority(house.directory, "elsewhere")
    tls = Tls(house_elsewhere.file, house.backend.certificate, house.backend.key)
    async with (
        control_running(database_url, redis_url, redis_prefix, tls=house.service) as control,
        AsyncClient(control.opened.address, tls=tls, timeout=timedelta(seconds=1)) as client,
    ):
        with pytest.raises((errors.PlatformUnavailable, CallFailed)):
            await client.create_job("synthetic", {"items": 1})


async def succeeds(execution: Execution) -> None:
    """Run a job from end to end."""
    job_id = await execution.job(input=LARGE)
    await execution.until_event(job_id, "succeeded")
    assert (await execution.read(job_id)).state is JobState.SUCCEEDED


async def until_another_session(execution: Execution) -> None:
    [row] = await execution.rows("select session_id from executor_sessions")
    await execution.until_row(f"select 1 from executor_sessions where session_id <> '{row.session_id}'")


def replace_all(house: House) -> None:
    directory = house.directory / "renewed"
    directory.mkdir()
    renewed = House(directory)
    house.server.replace_by(renewed.server)
    house.executor.replace_by(renewed.executor)
    renewed.authority.file.replace(house.authority.file)


async def test_an_executor_works_by_its_certificate_and_fetches_large_inputs_too(
    database_url: str, redis_url: str, redis_prefix: str, house: House
) -> None:
    async with (
        execution_running(database_url, redis_url, redis_prefix, tls=house.service) as execution,
        an_executor(execution.address, tls=house.dialled_by(house.executor)),
    ):
        await succeeds(execution)


async def test_an_executor_goes_on_with_a_renewed_certificate(
    database_url: str, redis_url: str, redis_prefix: str, house: House
) -> None:
    """Everything is renewed, the authority too, while sessions are handed over every half second."""
    sessions = {"age_seconds": 0.5, "drain_seconds": 0.5}
    servers = (database_url, redis_url, redis_prefix)
    tls = house.dialled_by(house.executor)
    async with (
        execution_running(*servers, tls=house.service, sessions=sessions) as execution,
        an_executor(execution.address, tls=tls),
    ):
        await succeeds(execution)
        replace_all(house)
        for _ in range(2):  # the first may have been on its way
            await until_another_session(execution)
        await succeeds(execution)


@pytest.mark.parametrize("stranger", ["backend", "nobody"])
async def test_an_executor_whose_certificate_may_not_execute_is_told_so_and_ends(
    database_url: str, redis_url: str, redis_prefix: str, house: House, stranger: str
) -> None:
    files = house.authority.signed("stranger", common_name=stranger)
    async with (
        execution_running(database_url, redis_url, redis_prefix, tls=house.service) as execution,
        an_executor(execution.address, tls=house.dialled_by(files)) as running,
    ):
        with pytest.raises(StartupFault, match="refuses this executor: PERMISSION_DENIED"):
            await running
