"""Where checks are made: the executor, the session that it has now, and waits that say what did not come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc

from shared.gen.baton.v1 import execution_service_pb2 as pb
from verification.conformance.executors.tested import Command, Tested, started
from verification.peers.executor import ref
from verification.peers.service import ScriptedSession, a_lease
from verification.unmet import Unmet, require

START_SECONDS_MAX = 30.0
ANSWER_SECONDS_MAX = 10.0
"""For anything that an executor does at once."""
INTERVAL_SECONDS = 1.0
"""Between heartbeats."""
GRACE_SECONDS = 1.0
STOP_SECONDS_MAX = 40.0
QUEUE = "drill"

_TIMES = {
    "grace": GRACE_SECONDS,
    "heartbeat_interval": INTERVAL_SECONDS,
    "lease_duration": 3 * INTERVAL_SECONDS,
    "time_left": 60.0,
}
_LEASE_FIELDS = {each.name for each in pb.Lease.DESCRIPTOR.fields}


class NeverStarted(Unmet):
    """There was no hello, so there is nothing to judge."""


class Bench:
    """Keeps one executor from check to check; one that failed a check is replaced.

    Attributes:
        sessions: Each that has been opened, over all lives.
        hopeless: Whether it said no hello after its last start.
        first: The first session of this life.
        granted: Each lease that was sent, by job id.
    """

    def __init__(self, command: Command, directory: Path) -> None:
        self.sessions: list[ScriptedSession] = []
        self.granted: dict[str, pb.Lease] = {}
        self.hopeless = False
        self._command = command
        self._directory = directory
        self._lives = 0
        self._tested: Tested | None = None
        self._first: ScriptedSession | None = None
        self._session: ScriptedSession | None = None
        self._resources = AsyncExitStack()

    @property
    def first(self) -> ScriptedSession:
        if self._first is None:
            raise Unmet("the executor has said no hello")
        return self._first

    @property
    def executor(self) -> Tested:
        if self._tested is None:
            raise Unmet("the executor does not run")
        return self._tested

    async def start(self) -> ScriptedSession:
        """Start the executor anew, and return its first session with the hello unanswered.

        Raises:
            NeverStarted: It says no hello.
        """
        await self.close()
        self._lives += 1
        log_file = self._directory / f"executor-{self._lives}.log"
        self._tested = await self._resources.enter_async_context(started(self._command, log_file))
        try:
            self._first = await self.next_session(seconds=START_SECONDS_MAX)
        except Unmet as unmet:
            self.hopeless = True
            raise NeverStarted(f"after its start {unmet}") from None
        return self._first

    async def close(self) -> None:
        """End the executor, however."""
        self._tested = self._first = self._session = None
        await self._resources.aclose()

    async def session(self) -> ScriptedSession:
        """Return a session that has given credits; the executor is started if none runs."""
        if self._tested is None or not self._tested.alive:
            await self.start()
            return await self.welcome(self.sessions[-1])
        if self._session is None or self._session.ended.is_set():
            return await self.welcome(await self.next_session())
        return self._session

    async def welcome(self, session: ScriptedSession, **fields: Any) -> ScriptedSession:
        """Answer a hello, and wait for credits."""
        self._session = session
        await session.welcome(frame_bytes_max=4 << 20, output_bytes_max=1 << 20, **fields)
        await self.until(session, lambda: session.credits(QUEUE), f"no credits for the queue `{QUEUE}` came")
        return session

    async def next_session(self, *, seconds: float = START_SECONDS_MAX) -> ScriptedSession:
        """Wait for a hello; it has not been answered yet."""
        waiting = asyncio.create_task(self.executor.service.session(seconds=seconds))
        ending = asyncio.create_task(self._ended())
        try:
            await asyncio.wait({waiting, ending}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done() or waiting.exception() is not None:
                limit = "" if ending.done() else f" within {seconds:.0f} s"
                raise Unmet(f"no hello came{limit}{self._condition()}")
            self.sessions.append(waiting.result())
            return waiting.result()
        finally:
            waiting.cancel()
            ending.cancel()

    async def broken(self, session: ScriptedSession) -> ScriptedSession:
        """Break a stream, and return the one that follows with the hello unanswered."""
        session.finish(grpc.StatusCode.UNAVAILABLE)
        return await self.next_session()

    async def grant(self, session: ScriptedSession, *, accepted: bool = True, **given: Any) -> pb.Lease:
        """Send a lease for this input and wait until it is accepted."""
        (lease,) = await self.grant_all(session, a_synthetic(**given))
        if accepted:
            await self.accepted(session, lease)
        return lease

    async def grant_all(self, session: ScriptedSession, *leases: pb.Lease) -> Sequence[pb.Lease]:
        """Send leases in one frame, once there are credits for them."""
        await self.until(
            session,
            lambda: self.credits_left(session) >= len(leases),
            "a credit that was used did not come again",
        )
        self.granted |= {each.job_id: each for each in leases}
        await session.grant(*leases)
        return leases

    def credits_left(self, session: ScriptedSession) -> int:
        """Credits that are not used: each lease uses one, and sessions share none."""
        return session.credits(QUEUE) - session.granted

    async def accepted(self, session: ScriptedSession, lease: pb.Lease) -> None:
        """Wait for a lease's first heartbeat."""
        await self.beats(session, lease, 1)

    async def beats(
        self, session: ScriptedSession, lease: pb.Lease, count: int, *, reported: bool = False
    ) -> None:
        """Wait for so many heartbeats of a lease, before its report unless that has come already."""
        await self.until(
            session,
            lambda: (
                len(session.heartbeats_of(lease)) >= count or (session.reports_of(lease) and not reported)
            ),
            lambda: f"{len(session.heartbeats_of(lease))} heartbeats came, {count} were due",
            seconds=ANSWER_SECONDS_MAX + 3 * count * INTERVAL_SECONDS,
        )
        came = len(session.heartbeats_of(lease))
        if came < count:
            ended = described(session.reports_of(lease)[0])
            raise Unmet(f"{count} heartbeats were due; {came} had come when it was reported: {ended}")

    async def drop(self, session: ScriptedSession, lease: pb.Lease) -> None:
        """Be done with a lease whose end is not of interest: it is lost."""
        await session.send(lost=[ref(lease)])

    async def warm_up(self, session: ScriptedSession) -> None:
        """Have a job done, so that what runs handlers is known to be there."""
        lease = await self.grant(session, accepted=False)
        await self.success(session, lease, seconds=START_SECONDS_MAX)

    async def report(
        self, session: ScriptedSession, lease: pb.Lease, *, seconds: float = ANSWER_SECONDS_MAX
    ) -> pb.Report:
        """Wait for a lease's report."""
        await self.until(session, lambda: session.reports_of(lease), "no report came", seconds=seconds)
        return session.reports_of(lease)[0]

    async def success(
        self, session: ScriptedSession, lease: pb.Lease, *, seconds: float = ANSWER_SECONDS_MAX
    ) -> pb.Success:
        """Wait for a lease's report, which must tell of an output."""
        report = await self.report(session, lease, seconds=seconds)
        require(report.HasField("success"), f"no success was reported, but {described(report)}")
        return report.success

    async def until(
        self,
        session: ScriptedSession,
        condition: Callable[[], object],
        otherwise: str | Callable[[], str],
        *,
        seconds: float = ANSWER_SECONDS_MAX,
    ) -> None:
        """Wait until what was received on a session fulfils a condition.

        Raises:
            Unmet: It has not after so long, or the stream has ended.
        """
        waiting = asyncio.create_task(session.until(condition, seconds=seconds))
        ending = asyncio.create_task(session.ended.wait())
        began = time.monotonic()
        try:
            await asyncio.wait({waiting, ending}, return_when=asyncio.FIRST_COMPLETED)
            if condition():
                return
            what = otherwise if isinstance(otherwise, str) else otherwise()
            how = "when the stream ended" if ending.done() else "in"
            raise Unmet(f"{what}: {how} {time.monotonic() - began:.1f} s{self._condition()}")
        finally:
            waiting.cancel()
            ending.cancel()
            await asyncio.gather(waiting, ending, return_exceptions=True)

    async def until_over(self, session: ScriptedSession) -> None:
        """Wait until the executor has ended a stream."""
        try:
            async with asyncio.timeout(STOP_SECONDS_MAX):
                await session.ended.wait()
        except TimeoutError:
            raise Unmet(f"the stream had not been ended after {STOP_SECONDS_MAX:.0f} s") from None

    async def _ended(self) -> None:
        with_limit = START_SECONDS_MAX + STOP_SECONDS_MAX
        await self.executor.exit_code(with_limit)

    def _condition(self) -> str:
        """How the executor is, to be put behind what it did not do."""
        if self._tested is None:
            return ""
        state = "it runs" if self._tested.alive else "it has ended"
        words = self._tested.last_words
        return f"; {state}, and its log ends with:\n{words}" if words else f"; {state}, and its log is empty"


def a_synthetic(**given: Any) -> pb.Lease:
    """Make a lease of a synthetic job; fields of the lease may stand among those of its input."""
    fields = {name: given.pop(name) for name in given.keys() & _LEASE_FIELDS}
    return a_lease(given=given, **{**_TIMES, **fields})


def described(report: pb.Report) -> str:
    """Say in words what a report says."""
    match report.WhichOneof("end"):
        case "success":
            return "a success"
        case "failure":
            return f"the failure {report.failure.code}: {report.failure.message}"
        case "give_back":
            return f"given back, {pb.GiveBackReason.Name(report.give_back.reason)}"
        case "stopped":
            return "stopped"
        case _:
            return "a report without an end"


def names(refs: Sequence[pb.LeaseRef]) -> set[tuple[str, str]]:
    """What leases are named, in no order."""
    return {(each.job_id, each.token) for each in refs}


def is_named(lease: pb.Lease, refs: Sequence[pb.LeaseRef]) -> bool:
    return ref(lease) in refs
