"""Does something to one process after the other, in a seeded order, for a given time."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress

from verification.evidence.tables import OF_RUN
from verification.stage import freezing
from verification.stage.database import AWAY
from verification.stage.executors import Executor
from verification.stage.redis_contents import REDIS_AWAY, RedisContents
from verification.stage.stage import LOST_AFTER_SECONDS, Stage

SERVICES = ("api", "worker", "postgres", "valkey")
WAIT_SECONDS = (2.0, 3.0)
"""Between two things, drawn anew each time."""
FREEZE_SECONDS = 3.0
"""Of a service: long for callers, shorter than a lease."""
ZOMBIE_SECONDS = LOST_AFTER_SECONDS + 2
"""Of an executor: it wakes up when others do its work."""
LOSSES_SPARED = 2
"""A job with so many losses must not lose another executor: by the rules that would be its end."""

_ROUND = (*SERVICES, "executor", "handlers", "freeze", "zombie", "wipe")
_RESTART_SECONDS = 60.0
_QUERY_SECONDS = 2.0

_MOST_LOSSES = f"""
select coalesce(max(losses), 0) from jobs
where {OF_RUN} and state = 'RUNNING'
"""


class Fire:
    """Burns on one stage; in each round everything that is in its list happens once.

    Attributes:
        done: How often each thing was done.
    """

    def __init__(self, stage: Stage, executors: Sequence[Executor]) -> None:
        """Take executors that are kept alive; their turns go round."""
        self.done = Counter[str]()
        self._stage = stage
        self._executors = executors
        self._turns = itertools.cycle(executors)
        self._frozen = itertools.cycle(("worker", "api"))

    @property
    def kills(self) -> int:
        """How many processes were killed; the handlers of one executor count as one."""
        return sum(self.done[name] for name in (*SERVICES, "executor", "handlers"))

    async def burn(self, seconds: float) -> None:
        """Go on for so long, to the end of what is being done then."""
        deadline = self._stage.history.now() + seconds
        freezing_meanwhile: set[asyncio.Task[None]] = set()
        for name in self._names():
            if self._stage.history.now() >= deadline:
                break
            if name in ("freeze", "zombie"):
                freezing_meanwhile.add(asyncio.create_task(self._do(name)))
            else:
                await self._do(name)
            await asyncio.sleep(self._stage.random.uniform(*WAIT_SECONDS))
        await asyncio.gather(*freezing_meanwhile)

    def _names(self) -> Iterator[str]:
        while True:
            yield from self._stage.random.sample(_ROUND, k=len(_ROUND))

    async def _do(self, name: str) -> None:
        match name:
            case "executor":
                await self._kill_an_executor()
            case "handlers":
                self._kill_handlers()
            case "freeze":
                await self._freeze_a_service()
            case "zombie":
                await self._freeze_an_executor()
            case "wipe":
                await self._wipe()
            case _:
                await self._until_it_lives(name)
                with suppress(OSError):  # it has died by itself
                    self._stage.kill(name)
                    self.done[name] += 1

    async def _kill_an_executor(self) -> None:
        victim = self._next_alive()
        if victim is not None and await self._may_lose() and victim.alive:
            victim.kill()
            self.done["executor"] += 1

    def _kill_handlers(self) -> None:
        victim = self._next_alive()
        if victim is not None and victim.kill_handlers():
            self.done["handlers"] += 1

    async def _freeze_a_service(self) -> None:
        name = next(self._frozen)
        process_id = await self._until_it_lives(name)
        with suppress(OSError):  # it was killed this very moment
            self._stage.history.fault(name, "paused")
            with freezing.frozen(process_id):
                await asyncio.sleep(FREEZE_SECONDS)
            self._stage.history.fault(name, "resumed")
            self.done["frozen services"] += 1

    async def _freeze_an_executor(self) -> None:
        victim = self._next_alive()
        if victim is not None and await self._may_lose():
            with suppress(OSError):
                victim.pause()
                await asyncio.sleep(ZOMBIE_SECONDS)
                victim.resume()
                self.done["frozen executors"] += 1

    async def _wipe(self) -> None:
        with suppress(*REDIS_AWAY):
            await RedisContents(self._stage.stack.redis_url, _QUERY_SECONDS).wipe()
            self._stage.history.fault("valkey", "wiped")
            self.done["wiped"] += 1

    def _next_alive(self) -> Executor | None:
        turns = itertools.islice(self._turns, len(self._executors))
        return next((each for each in turns if each.alive), None)

    async def _may_lose(self) -> bool:
        """Whether every job could bear the loss of its executor; False while the database does not say."""
        try:
            async with asyncio.timeout(_QUERY_SECONDS):
                most = await self._stage.value(_MOST_LOSSES, self._stage.run)
        except AWAY:
            return False
        return int(most) < LOSSES_SPARED

    async def _until_it_lives(self, name: str) -> int:
        """Wait for a process that is between two lives, and return its id."""
        stack = self._stage.stack
        await self._stage.until(
            lambda: stack.life(name).process_id is not None, seconds=_RESTART_SECONDS, what=f"{name} to run"
        )
        return stack.process_id(name)
