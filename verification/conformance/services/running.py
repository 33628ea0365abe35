"""Runs the checks of services one after the other; one that fails or hangs stops no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import grpc

from shared.gen.baton.v1 import execution_service_pb2, job_control_pb2
from verification.conformance.services.catalog import THEMES
from verification.conformance.services.check import Check, Theme
from verification.conformance.services.session import unknown_lease
from verification.conformance.services.target import NotJudged, Target, reaching
from verification.evidence.history import History
from verification.outcomes import Outcome, name_of, title_of
from verification.peers.control import Refused
from verification.peers.executor import ref

GROUP = "services"
CHECK_SECONDS_MAX = 60.0
"""Longer than any check waits by itself; where leases last long, none waits for their end."""
REACH_SECONDS_MAX = 5.0
_CLEANING_SECONDS_MAX = 20.0
_LEFT_OUT = "left out: no ExecutionService was named"

_FAILURES = (AssertionError, Refused, OSError, grpc.RpcError, ValueError, LookupError)
"""What a check raises when services do not do as they must; a wrong answer may break what reads it."""


class OutOfReach(Exception):
    """There is no such service at an address, or it does not let the caller in.

    Attributes:
        status: gRPC's name of what was met.
    """

    def __init__(self, service: str, address: str, status: str, message: str) -> None:
        self.status = status
        super().__init__(f"{service} at {address}: {message}")


async def check_services(
    control: str,
    execution: str = "",
    *,
    token: str | None = None,
    themes: Sequence[Theme] = THEMES,
    check_seconds: float = CHECK_SECONDS_MAX,
    history_file: Path | None = None,
) -> AsyncIterator[Outcome]:
    """Check services that run, and tell of each check as it ends.

    Args:
        control: Where JobControl listens, host:port.
        execution: Likewise ExecutionService; empty leaves out what needs it.
        check_seconds: A check that takes longer has failed.
        history_file: Where all calls and frames are written, if anywhere.
    """
    run, history = uuid4().hex, History()
    for theme in themes:
        for check in theme.checks:
            if theme.executing and not execution:
                yield _outcome(theme, check, 0.0, unjudged=_LEFT_OUT)
            else:
                async with reaching(control, execution, token=token, run=run, history=history) as target:
                    yield await _checked(target, theme, check, seconds=check_seconds)
    if history_file is not None:
        await asyncio.to_thread(history.write, history_file)


async def check_target(
    control: str, execution: str = "", *, token: str | None = None, directory: Path
) -> AsyncIterator[Outcome]:
    """Check services of somebody's, once it is sure that they are there.

    Raises:
        OutOfReach: One is not, or does not let the caller in.
    """
    await reach(control, execution, token=token)
    await asyncio.to_thread(directory.mkdir, parents=True, exist_ok=True)
    history_file = directory / "conformance.jsonl"
    async for each in check_services(control, execution, token=token, history_file=history_file):
        yield each


async def reach(control: str, execution: str = "", *, token: str | None = None) -> None:
    """Make sure that both services are there and let the caller in.

    Raises:
        OutOfReach: One is not, or does not.
    """
    async with reaching(control, execution, token=token, run=uuid4().hex, history=History()) as target:
        request = job_control_pb2.ListJobDefinitionsRequest()
        await _reached(
            "JobControl",
            control,
            target.control.call("ListJobDefinitions", request, seconds=REACH_SECONDS_MAX),
        )
        if execution:
            lease = execution_service_pb2.GetSnapshotRequest(lease=ref(unknown_lease()))
            stream = target.execution.GetSnapshot(lease, metadata=target.metadata, timeout=REACH_SECONDS_MAX)
            await _reached("ExecutionService", execution, target.collected("GetSnapshot", stream))


async def _reached(service: str, address: str, call: object) -> None:
    try:
        await call  # type: ignore[misc]
    except Refused as error:
        if error.status in {"UNAVAILABLE", "DEADLINE_EXCEEDED"}:
            raise OutOfReach(service, address, error.status, "the service can't be reached") from None
        if error.status in {"UNAUTHENTICATED", "PERMISSION_DENIED", "UNIMPLEMENTED"}:
            raise OutOfReach(service, address, error.status, f"the service answers {error.status}") from None


async def _checked(target: Target, theme: Theme, check: Check, *, seconds: float) -> Outcome:
    begin, failure, unjudged = target.history.now(), "", ""
    try:
        async with asyncio.timeout(seconds):
            await check(target)
    except NotJudged as reason:
        unjudged = str(reason)
    except TimeoutError:
        failure = "what it waited for did not come in time"
    except _FAILURES as error:
        failure = f"{type(error).__name__}: {error}"
    took = target.history.now() - begin
    await _clean(target)
    return _outcome(theme, check, took, failure=failure, unjudged=unjudged)


async def _clean(target: Target) -> None:
    """Cancel what a check has left, so that no executor ever takes it."""
    with suppress(TimeoutError, *_FAILURES):
        async with asyncio.timeout(_CLEANING_SECONDS_MAX):
            for job in await target.open_jobs():
                with suppress(Refused):
                    await target.control.cancel(job.job_id)


def _outcome(theme: Theme, check: Check, seconds: float, *, failure: str = "", unjudged: str = "") -> Outcome:
    return Outcome(
        group=GROUP,
        name=f"{theme.name}: {name_of(check)}",
        title=title_of(check),
        seconds=seconds,
        failure=failure,
        unjudged=unjudged,
    )
