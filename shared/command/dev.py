"""`baton dev`: the whole engine on one machine, with servers of its own unless it is told of real ones."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from pydantic import SecretStr

from shared.command import data_directory, embedded_postgres, embedded_valkey
from shared.command.data_directory import LOOPBACK, DataDirectory
from shared.command.embedded_postgres import EmbeddedServer
from shared.command.launcher import launched
from shared.command.process_spec import ProcessSpec, accepts_connections, made
from shared.command.supervised import last_words
from shared.command.supervisor import Supervisor
from shared.domain.scopes import JOBS_EXECUTE
from shared.runtime.clock import SystemClock
from shared.runtime.faults import StartupFault
from shared.runtime.processes import until_signalled
from shared.runtime.settings import CallerSettings, OptionalPath, OptionalText

CONTROL_PORT = 7410
EXECUTION_PORT = 7420

_SERVICE_GRACE_SECONDS = 20.0
"""A draining service waits for its executors; on one machine they have gone before it is asked to stop."""
_EXECUTOR_GRACE_SECONDS = 20.0
"""An executor finishes what it can and gives the rest back."""

_TOKEN_LIFETIME = timedelta(days=30)
"""Longer than a stack on a developer's machine runs; its executors can't get another one."""

_EXECUTOR_READY_SECONDS = 120.0
"""Many executors that start together on one machine wait for its processor."""


class DevSettings(CallerSettings):
    """Real servers to use, of which those that are not set are started here; and who may call."""

    database_url: str | None = None
    redis_url: str | None = None
    token_secret: SecretStr | None = None
    token_keys_file: OptionalPath = None
    token_keys_url: OptionalText = None
    token_issuer: OptionalText = None
    token_audience: OptionalText = None
    token: SecretStr | None = None


@dataclass(frozen=True, slots=True)
class DevOptions:
    """What `baton dev` was told.

    Attributes:
        data_directory: Kept across starts; None for a temporary one that is removed at the end.
        control_port: Where JobControl listens; 0 for any free port.
        execution_port: Where ExecutionService listens; 0 for any free port.
    """

    data_directory: Path | None = None
    executors: int = 1
    control_port: int = CONTROL_PORT
    execution_port: int = EXECUTION_PORT


async def dev(options: DevOptions, settings: DevSettings) -> None:
    """Run the stack until it is told to stop by SIGINT or SIGTERM.

    Raises:
        StartupFault: Something can't start; what had started was stopped again.
    """
    signalled = asyncio.create_task(until_signalled())
    with _directory(options.data_directory) as path, data_directory.hold(path) as directory:
        async with Supervisor(directory.path) as supervisor:
            stack = _Stack(supervisor, directory, options, settings)
            coming_up = asyncio.create_task(stack.come_up())
            await asyncio.wait({signalled, coming_up}, return_when=asyncio.FIRST_COMPLETED)
            if coming_up.done():
                await coming_up
                await signalled
            coming_up.cancel()
            await asyncio.wait({coming_up})
            say("stopping")
    say("stopped")


@contextmanager
def _directory(path: Path | None) -> Iterator[Path]:
    if path is not None:
        yield path
        return
    temporary = Path(tempfile.mkdtemp(prefix="baton-"))
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


class _Stack:
    """The parts of the engine, in the order in which they rest on each other."""

    def __init__(
        self, supervisor: Supervisor, directory: DataDirectory, options: DevOptions, settings: DevSettings
    ) -> None:
        self._supervisor = supervisor
        self._directory = directory
        self._options = options
        self._settings = settings

    async def come_up(self) -> None:
        token = _executor_token(self._settings) if self._options.executors else None
        _require_two_ports(self._options)
        control = _address("control", self._options.control_port)
        execution = _address("execution", self._options.execution_port)
        database_url, redis_url = await self._servers()
        servers = {"BATON_DATABASE_URL": database_url, "BATON_REDIS_URL": redis_url}
        await _migrate(self._directory, servers)
        await self._start(_service("api", {**servers, "BATON_CONTROL_ADDRESS": control}, control))
        await self._start(_service("worker", {**servers, "BATON_EXECUTION_ADDRESS": execution}, execution))
        await self._start(
            *(
                _executor(number, execution, self._directory.path / f"executor-{number}.ready", token)
                for number in range(1, self._options.executors + 1)
            )
        )
        _say_ready(control, self._directory.path, by_tls=self._settings.tls.certificate_file is not None)
        if self._settings.token_secret:
            say("callers need a token in BATON_TOKEN: baton token --subject NAME makes one")

    async def _servers(self) -> tuple[str, str]:
        """Return the URLs of Postgres and Redis, and start those that were not given."""
        database_url, redis_url = self._settings.database_url, self._settings.redis_url
        wanted: list[EmbeddedServer] = []
        if database_url is None:
            wanted.append(await asyncio.to_thread(embedded_postgres.prepare, self._directory))
            database_url = wanted[-1].url
        if redis_url is None:
            wanted.append(embedded_valkey.prepare(self._directory))
            redis_url = wanted[-1].url
        for server in wanted:
            await self._start(server.process)
        return database_url, redis_url

    async def _start(self, *specs: ProcessSpec) -> None:
        await self._supervisor.start(*specs)
        for spec in specs:
            say(f"{spec.name:<12} {spec.address or 'up'}")


async def _migrate(directory: DataDirectory, servers: dict[str, str]) -> None:
    spec = ProcessSpec("migrate", (*_BATON, "migrate"), environment=dict(servers))
    log_path = directory.path / "logs" / "migrate.log"
    with log_path.open("ab") as output:
        begin = output.tell()
        process = await asyncio.create_subprocess_exec(
            *launched(spec.argv), env=spec.full_environment(), stdout=output, stderr=output
        )
        exit_code = await process.wait()
    if exit_code != 0:
        raise StartupFault([f"migrate: {each}" for each in last_words(log_path, begin)])


_BATON = (sys.executable, "-m", "shared.command.main")


def _service(name: str, environment: dict[str, str], address: str) -> ProcessSpec:
    host, _, port = address.rpartition(":")
    return ProcessSpec(
        name,
        (*_BATON, name),
        address=address,
        environment=dict(environment),
        grace_seconds=_SERVICE_GRACE_SECONDS,
        ready=accepts_connections(host, int(port)),
    )


def _require_two_ports(options: DevOptions) -> None:
    if options.control_port == options.execution_port != 0:
        raise StartupFault(
            f"both services can't listen on port {options.control_port}: choose another by --execution-port"
        )


def _executor_token(settings: DevSettings) -> str | None:
    """Make the token that executors show; None where none is asked for, or one was given for them.

    Raises:
        StartupFault: None was given, and here is nothing to sign one with that services would take.
    """
    if settings.token:
        return None
    if settings.token_keys_file or settings.token_keys_url:
        raise StartupFault("BATON_TOKEN is needed: a token with the scope jobs.execute, for the executors")
    secret = settings.token_secret.get_secret_value() if settings.token_secret else ""
    if not secret:
        return None
    from shared.rpc.tokens import Expected, shared_secret, signed_token

    shared_secret(secret, setting="BATON_TOKEN_SECRET")
    return signed_token(
        secret,
        subject="dev-executor",
        scopes={JOBS_EXECUTE},
        now=SystemClock().now(),
        lifetime=_TOKEN_LIFETIME,
        expected=Expected(settings.token_issuer, settings.token_audience),
    )


def _executor(number: int, execution_address: str, ready_file: Path, token: str | None) -> ProcessSpec:
    ready_file.unlink(missing_ok=True)  # of an executor that was killed
    return ProcessSpec(
        f"executor-{number}",
        (*_BATON, "executor"),
        # An executor never sees the servers, so it does not inherit their names from here either.
        environment={
            "BATON_EXECUTION_ADDRESS": execution_address,
            "BATON_READY_FILE": str(ready_file),
            "BATON_DATABASE_URL": None,
            "BATON_REDIS_URL": None,
            "BATON_TOKEN_SECRET": None,
            **({} if token is None else {"BATON_TOKEN": token}),
        },
        grace_seconds=_EXECUTOR_GRACE_SECONDS,
        ready=made(ready_file),
        ready_seconds=_EXECUTOR_READY_SECONDS,
    )


def _address(name: str, port: int) -> str:
    """Say where a service shall listen.

    Raises:
        StartupFault: Another program listens there; its answers would be taken for the service's.
    """
    if port == 0:
        return f"{LOOPBACK}:{data_directory.free_port()}"
    if not data_directory.is_free(port):
        raise StartupFault(f"port {port} is in use by another program: choose another by --{name}-port")
    return f"{LOOPBACK}:{port}"


def _say_ready(control: str, path: Path, *, by_tls: bool) -> None:
    elsewhere = f"BATON_CONTROL_ADDRESS={control} " if control != f"{LOOPBACK}:{CONTROL_PORT}" else ""
    say(f"ready; logs and stack.json are in {path}; Ctrl-C stops it all. Try:")
    say(f"    {elsewhere}baton submit synthetic --input '{{}}' --watch")
    say(f"    {elsewhere}baton list")
    if not by_tls:
        say(f"    grpcurl -plaintext {control} list")


def say(line: str) -> None:
    print(line, flush=True)
