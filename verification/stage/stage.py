"""What a part of a case acts on: the stack, callers, executors, and all that is written down meanwhile."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from verification.evidence.history import History
from verification.evidence.ledger import Ledger
from verification.evidence.samples import Samples
from verification.evidence.tables import OF_RUN
from verification.peers.control import Control, Refused, calling
from verification.peers.executor import ScriptedExecutor
from verification.stage import tokens
from verification.stage.database import AWAY, connected
from verification.stage.executors import Executors, executors_of
from verification.stage.sampling import sampled
from verification.stage.stack import SHORT_TIMES, Life, Stack, clean_environment
from verification.stage.terms import Terms
from verification.unmet import Unmet

LEASE_SECONDS = 3.0
HEARTBEAT_SECONDS = 1.0
GRACE_SECONDS = 3.0
LOST_AFTER_SECONDS = 1.5 * LEASE_SECONDS
"""Without a heartbeat for so long a lease is lost; the reaper, every few seconds, sees it."""

BEGIN_SECONDS_MAX = 60.0
"""How long a job may wait for its handler; a second is long, where an executor has room."""
SETTLE_SECONDS = 90.0
"""How long jobs may take to end once nothing is done to them any more."""

_CALLER = "verify"
_EVERYONE = "local"
"""Whoever calls a stack that asks for no tokens."""

_POLL_SECONDS = 0.1

T = TypeVar("T")

OPEN = ("QUEUED", "RUNNING")
"""States of a job that has not ended."""
_JOBS = f"select count(*) from jobs where {OF_RUN} and state = any($2::text[])"
_DUE = "select clock_timestamp() + $1::float8 * interval '1 second'"
_JOB_IDS = f"select array_agg(job_id) from jobs where {OF_RUN} and state = any($2::text[])"
_ACCEPTED = "select count(*) from leases where job_id = $1 and accepted"


@dataclass(slots=True)
class Stage:
    """A stack with everything that one part of a case needs; nothing in it outlives the part.

    Attributes:
        run: Names the part's run; its jobs are labelled with it.
        secret: A text that only inputs hold, and that must be nowhere else.
        random: Seeded; all chance of a part comes from it.
        samples: What is seen of Redis and the outbox meanwhile.
        notes: What was measured, for the report.
    """

    stack: Stack
    history: History
    control: Control
    executors: Executors
    ledger: Ledger
    directory: Path
    run: str
    secret: str
    random: random.Random
    terms: Terms
    samples: Samples
    notes: dict[str, Any] = field(default_factory=dict)
    _beside: list[asyncio.Task[Any]] = field(default_factory=list)

    def scaled(self, count: int, *, at_least: int = 1) -> int:
        """A count of the case's, at this run's scale."""
        return max(at_least, round(count * self.terms.scale))

    def lasting(self, seconds: float) -> float:
        """How long fire is to last: as it was told, or the case's time at this run's scale."""
        return seconds * self.terms.scale if self.terms.seconds is None else self.terms.seconds

    def work(self, **order: Any) -> dict[str, Any]:
        """The input of a synthetic job whose handler writes to the part's ledger."""
        return {"ledger": str(self.ledger.path), "note": self.secret, **order}

    def scripted(self, name: str) -> AbstractAsyncContextManager[ScriptedExecutor]:
        """Connect an executor that does what the part says, and have its frames written down."""
        return ScriptedExecutor.connected(
            self.stack.execution, name=name, history=self.history, token=self.stack.token(name)
        )

    @property
    def owner(self) -> str:
        """Of the jobs that `control` creates."""
        return _EVERYONE if self.stack.token(_CALLER) is None else _CALLER

    def calling(
        self, address: str = "", *, subject: str = "", scopes: Collection[str] = tokens.EVERYTHING
    ) -> AbstractAsyncContextManager[Control]:
        """Open one more connection to JobControl, as written down as `control`.

        Args:
            address: Of another replica, or of a way there.
            subject: Another caller, on a stack that asks for tokens.
        """
        subject = subject or self.owner
        return calling(
            address or self.stack.control,
            self.history,
            run=self.run,
            token=self.stack.token(subject, scopes),
            caller=subject,
        )

    def beside(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin what goes on beside the part; it is given up at the part's end, however that comes."""
        task = asyncio.create_task(work)
        self._beside.append(task)
        return task

    async def give_up_beside(self) -> None:
        """End what still goes on beside the part."""
        for each in self._beside:
            each.cancel()
        await asyncio.gather(*self._beside, return_exceptions=True)

    def kill(self, name: str, sent: signal.Signals = signal.SIGKILL) -> Life:
        """Send a signal to a process of the stack, and return its life up to then, for `restarted`."""
        self.history.fault(name, "killed" if sent is signal.SIGKILL else sent.name)
        return self.stack.kill(name, sent)

    async def restarted(self, life: Life) -> None:
        """Wait until a process of the stack lives again."""
        await asyncio.to_thread(self.stack.until_restarted, life)

    async def kill_and_restart(self, name: str) -> None:
        await self.restarted(self.kill(name))

    @contextmanager
    def held_down(self, name: str) -> Iterator[None]:
        """Kill a process of the stack, and keep it from being started again while the block runs."""
        self.history.fault(name, "held down")
        with self.stack.held_down(name):
            yield
        self.history.fault(name, "let up")

    async def value(self, query: str, *arguments: Any) -> Any:
        """Ask the database for one value."""
        async with connected(self.stack.database_url) as connection:
            return await connection.fetchval(query, *arguments)

    async def due_in(self, seconds: float) -> datetime:
        """A time for a job to wait for, by the database's clock: no other counts."""
        due: datetime = await self.value(_DUE, seconds)
        return due

    async def until_value(
        self, query: str, *arguments: Any, holds: Callable[[Any], bool], seconds: float, what: str
    ) -> Any:
        """Wait until a query's value fulfils a condition, through restarts of the database; return it.

        Args:
            what: Is waited for, for the error.

        Raises:
            Unmet: It did not come in time.
        """
        deadline = self.history.now() + seconds
        found: Any = None
        while self.history.now() < deadline:
            try:
                found = await self.value(query, *arguments)
            except AWAY as error:
                found = repr(error)
            else:
                if holds(found):
                    return found
            await asyncio.sleep(_POLL_SECONDS)
        raise Unmet(f"waited {seconds:.0f} s in vain for {what}; the last answer was {found}")

    async def until(self, condition: Callable[[], object], *, seconds: float, what: str) -> None:
        """Wait for what no event tells of, for example an entry in the ledger.

        Raises:
            Unmet: It did not come in time.
        """
        deadline = self.history.now() + seconds
        while not condition():
            if self.history.now() > deadline:
                raise Unmet(f"waited {seconds:.0f} s in vain for {what}")
            await asyncio.sleep(_POLL_SECONDS)

    async def until_begun(self, job_id: str) -> None:
        """Wait until a handler has begun a job.

        Raises:
            Unmet: None has in time.
        """
        what = f"a handler to begin job {job_id}"
        await self.until(lambda: self.ledger.of(job_id), seconds=BEGIN_SECONDS_MAX, what=what)

    async def until_accepted(self, job_id: str) -> None:
        """Wait until the service knows that an executor has accepted a job's lease.

        Raises:
            Unmet: It does not in time.
        """
        what = f"the lease of job {job_id} to be accepted"
        await self.until_value(_ACCEPTED, job_id, holds=bool, seconds=BEGIN_SECONDS_MAX, what=what)

    async def jobs(self, *states: str) -> int:
        """How many jobs of this run are in one of these states."""
        return int(await self.value(_JOBS, self.run, states))

    async def until_jobs(self, *states: str, holds: Callable[[int], bool], seconds: float, what: str) -> None:
        """Wait until the number of this run's jobs in one of these states fulfils a condition.

        Raises:
            Unmet: It has not in this time.
        """
        await self.until_value(_JOBS, self.run, states, holds=holds, seconds=seconds, what=what)

    async def settle(self, *, seconds: float = SETTLE_SECONDS) -> None:
        """Wait until every job of this run has ended, with an executor more if any is open.

        Raises:
            Unmet: Some have not: a job was lost on the way.
        """
        if await self.jobs(*OPEN):
            await self.executors.start("finisher")
        await self.until_ended(seconds=seconds)

    async def abandon(self) -> None:
        """Cancel what a part that failed has left open, so that it takes no executor from the next one."""
        for job_id in await self.value(_JOB_IDS, self.run, OPEN) or ():
            with suppress(Refused):  # it has ended meanwhile
                await self.control.cancel(str(job_id))

    async def until_ended(self, *, seconds: float) -> None:
        """Wait until every job of this run has ended.

        Raises:
            Unmet: Some have not in this time.
        """
        await self.until_jobs(*OPEN, holds=lambda count: count == 0, seconds=seconds, what="every job to end")


@asynccontextmanager
async def staged(stack: Stack, directory: Path, terms: Terms) -> AsyncIterator[Stage]:
    """Set a stage on a running stack; its executors and connections end with the block.

    Args:
        directory: For the ledger and the executors' logs; made if need be.
    """
    directory.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - a moment
    run, secret, history = uuid4().hex, f"secret-{uuid4().hex}", History()
    token = stack.token(_CALLER)
    environment = {
        **clean_environment(),
        **SHORT_TIMES,
        **({} if token is None else {"BATON_TOKEN": token}),
    }
    async with (
        calling(stack.control, history, run=run, token=token) as control,
        executors_of(stack.execution, history, directory=directory, environment=environment) as executors,
        sampled(stack, history, run, secret) as samples,
    ):
        stage = Stage(
            stack=stack,
            history=history,
            control=control,
            executors=executors,
            ledger=Ledger(directory / "ledger.txt"),
            directory=directory,
            run=run,
            secret=secret,
            random=random.Random(terms.seed),
            terms=terms,
            samples=samples,
        )
        try:
            yield stage
        finally:
            await stage.give_up_beside()
