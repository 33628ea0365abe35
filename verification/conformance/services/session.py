"""A session of a scripted executor that keeps to the jobs of its check."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc

from shared.gen.baton.v1 import execution_service_pb2 as pb
from verification.conformance.services.refusals import refused
from verification.conformance.services.target import NotJudged, Target
from verification.peers import executor as peers
from verification.peers.control import Refused
from verification.peers.executor import ScriptedExecutor
from verification.unmet import Unmet, require

LEASE_SECONDS_MAX = 20.0
"""How long a due job may wait for its lease; with an idle service it is a matter of milliseconds."""
_LOOK_SECONDS = 0.2


class Session:
    """Leases of jobs that are not the run's go back at once, and cost those jobs nothing.

    Attributes:
        executor: The bare stream.
        report, succeed, fail: As it does them.
    """

    def __init__(self, target: Target, executor: ScriptedExecutor) -> None:
        self.executor = executor
        self.report, self.succeed, self.fail = executor.report, executor.succeed, executor.fail
        self._target = target
        self._sent_back = set[str]()

    async def lease_of(self, job_id: str, *, attempt: int = 1) -> pb.Lease:
        """Return the lease of this attempt; if it is not there, add a credit and wait for it.

        Other leases that come meanwhile don't count: there is another credit for each.

        Raises:
            NotJudged: Another executor took it.
            Unmet: No lease came.
        """
        others = len(self.executor.leases) - 1
        try:
            async with asyncio.timeout(LEASE_SECONDS_MAX):
                while (found := self._found(job_id, attempt)) is None:
                    if missing := len(self.executor.leases) - others:
                        await self.executor.credit(missing)
                        others += missing
                    await self._send_back_strangers()
                    await self._fail_if_taken(job_id, attempt)
                    await self._more_frames()
        except TimeoutError:
            raise Unmet(f"no lease of attempt {attempt} came within {LEASE_SECONDS_MAX:.0f} s") from None
        return found

    async def granted(self, count: int, job_ids: Collection[str]) -> Sequence[pb.Lease]:
        """Wait until so many leases have come in all, for example of these jobs.

        Raises:
            NotJudged: Another executor took one of the jobs.
            Unmet: They did not come.
        """
        try:
            async with asyncio.timeout(LEASE_SECONDS_MAX):
                while len(self.executor.leases) < count:
                    for each in job_ids:
                        await self._fail_if_taken(each, 1)
                    await self._more_frames()
        except TimeoutError:
            found = len(self.executor.leases)
            raise Unmet(f"{found} of {count} leases came within {LEASE_SECONDS_MAX:.0f} s") from None
        return self.executor.leases

    async def beat(self, number: int, *leases: pb.Lease, **fields: Any) -> None:
        """Send a heartbeat for each lease, and wait until they are durable."""
        beats = [peers.heartbeat(each, **fields) for each in leases]
        await self.executor.send(heartbeats=beats, heartbeat_number=number)
        await self.executor.until(lambda: self.executor.heartbeats_recorded >= number)

    @property
    def _own_leases(self) -> Sequence[pb.Lease]:
        """Without those that went back at once."""
        return [each for each in self.executor.leases if each.token not in self._sent_back]

    def _found(self, job_id: str, attempt: int) -> pb.Lease | None:
        wanted = (each for each in self.executor.leases if each.job_id == job_id and each.attempt == attempt)
        return next(wanted, None)

    async def _send_back_strangers(self) -> None:
        created = {
            each.response["job"]["jobId"]
            for each in self._target.history.calls
            if each.method == "CreateJob" and each.response is not None
        }
        strangers = [each for each in self._own_leases if each.job_id not in created]
        self._sent_back |= {each.token for each in strangers}
        if strangers:
            reports = [peers.give_back(each, pb.GIVE_BACK_REASON_REFUSED) for each in strangers]
            await self.executor.send(reports=reports)

    async def _fail_if_taken(self, job_id: str, attempt: int) -> None:
        attempts = await self._target.control.attempts(job_id)
        for each in attempts:
            if each.number >= attempt and each.incarnation_id not in self._target.incarnations:
                raise NotJudged("other executors take the jobs")

    async def _more_frames(self) -> None:
        seen = len(self.executor.frames)
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_SECONDS):
                await self.executor.until(lambda: len(self.executor.frames) > seen)


@asynccontextmanager
async def session(target: Target, **hello: Any) -> AsyncIterator[Session]:
    """Open a session, which ends with a goodbye if the check has not ended it.

    Args:
        hello: As `ScriptedExecutor.hello` takes it.
    """
    async with connected(target) as executor:
        await executor.hello(**hello)
        target.incarnations.add(executor.incarnation_id)
        yield Session(target, executor)
        with suppress(TimeoutError, grpc.RpcError, asyncio.InvalidStateError):
            if executor.status is None:
                await executor.goodbye()


def connected(target: Target) -> Any:
    """Open a stream on which nothing has been said yet."""
    return ScriptedExecutor.connected(target.execution_address, token=target.token, history=target.history)


async def require_ended_as_invalid(executor: ScriptedExecutor, field: str) -> None:
    """Require that the service ends the stream as INVALID_INPUT, and names the field at fault."""
    await executor.until_over()
    status = executor.status.name if executor.status else None
    require(executor.error is not None, f"the stream ended with {status} where {field} is malformed")
    await refused(_raised(executor), "INVALID_INPUT", field, when=f"{field} is malformed")


async def _raised(executor: ScriptedExecutor) -> None:
    assert executor.error is not None
    raise Refused("OpenSession", executor.error)


def unknown_lease() -> pb.Lease:
    """A lease that never was."""
    return pb.Lease(job_id="00000000-0000-4000-8000-000000000000", token="1.never-was-a-lease", attempt=1)
