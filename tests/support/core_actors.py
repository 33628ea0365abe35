"""Actors that give the core random commands, all at the same time and each on its own connection.

They share what they have learned (jobs, entries, sessions, leases), so that they meet at the same rows, and
write down what they were promised.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from shared.domain.errors import BatonError, IdempotencyKeyReused, PlatformUnavailable
from shared.domain.identity import IncarnationId, JobId
from shared.domain.leases import LeaseRef
from shared.streams.lease_streams import Entry
from tests.support.core_commands import Core, unique_by_job, wish
from tests.support.core_reports import Answer, Report
from tests.support.racing_time import RacingTime
from tests.support.storage import Session

INCARNATIONS = [IncarnationId(UUID(int=number << 64)) for number in range(1, 4)]
REMEMBERED = 40
"""Of entries and leases; older ones are seldom asked for, so that most commands meet at the same rows."""
PAUSE_SECONDS_MAX = 0.01


@dataclass(slots=True)
class Record:
    """What all actors know, and what was promised to them."""

    created: list[JobId] = field(default_factory=list)
    bound: dict[tuple[str, str], set[JobId]] = field(default_factory=dict)
    cancelled: set[JobId] = field(default_factory=set)
    answers: dict[LeaseRef, set[tuple[Report, Answer]]] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    sessions: list[Session] = field(default_factory=list)
    leases: list[LeaseRef] = field(default_factory=list)
    granted: Counter[JobId] = field(default_factory=Counter)
    commands: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def successes(self, job_id: JobId) -> int:
        """Under so many leases somebody was told that the success is durable."""
        return sum(
            ref.job_id == job_id and (Report.SUCCESS, Answer.ACCEPTED) in answers
            for ref, answers in self.answers.items()
        )


class Actor:
    """One of many who do what comes to their mind."""

    def __init__(self, core: Core, time: RacingTime, record: Record, draw: random.Random) -> None:
        self._core, self._time, self._record, self._draw = core, time, record, draw

    async def act(self, commands: Sequence[tuple[int, str]], goes_on: Callable[[], bool]) -> None:
        """Give commands, by their weights, while it goes on."""
        weights, names = [weight for weight, _ in commands], [name for _, name in commands]
        while goes_on():
            (name,) = self._draw.choices(names, weights)
            command: Callable[[], Awaitable[None]] = getattr(self, name)
            try:
                await command()
                self._record.commands[name] += 1
            except PlatformUnavailable as error:
                self._record.faults.append(f"{name}: {error.__cause__!r}")
            await asyncio.sleep(self._draw.random() * PAUSE_SECONDS_MAX)

    async def create(self) -> None:
        count = self._draw.choice([1, 1, 5, 20])
        owner, priority = self._draw.choice("abc"), self._draw.choice([5, 50])
        made = await self._core.create([wish(owner, priority=priority) for _ in range(count)])
        self._record.created += [each.job.job_id for each in made if not isinstance(each, BatonError)]

    async def create_with_keys(self) -> None:
        keys = [f"key-{self._draw.randrange(20):04}" for _ in range(3)]
        items = self._draw.choice([1, 1, 1, 2])
        made = await self._core.create([wish("owner", key=key, items=items) for key in keys])
        for key, outcome in zip(keys, made, strict=True):
            if isinstance(outcome, BatonError):
                assert isinstance(outcome, IdempotencyKeyReused)
                assert outcome.job_id is not None
                job_id = outcome.job_id
            else:
                job_id = outcome.job.job_id
                self._record.created.append(job_id)
            self._record.bound.setdefault(("owner", key), set()).add(job_id)

    async def cancel(self) -> None:
        if not self._record.created:
            return
        job_id = self._draw.choice(self._record.created[-REMEMBERED:])
        try:
            await self._core.cancel(job_id)
        except PlatformUnavailable:
            raise
        except BatonError:
            return
        self._record.cancelled.add(job_id)

    async def dispatch(self) -> None:
        await self._core.dispatch()

    async def dispatch_and_crash(self) -> None:
        await self._core.dispatch_and_crash()

    async def sweep(self) -> None:
        await self._core.sweep()

    async def sweep_start_by(self) -> None:
        await self._core.sweep_start_by()

    async def reap(self) -> None:
        await self._core.reap()

    async def pulse(self) -> None:
        await self._core.pulse()

    async def wipe(self) -> None:
        await self._core.wipe()

    async def jump(self) -> None:
        await self._time.jump(timedelta(seconds=self._draw.choice([0.2, 1, 4, 12, 31, 50])))

    async def claim(self) -> None:
        """Claim new entries, and some that were taken before, for all sessions that are known here."""
        if not self._record.sessions:
            return
        entries = await self._core.take("worker", self._draw.choice([1, 4, 20]))
        self._record.entries += entries
        entries += self._some(self._record.entries, 3)
        self._draw.shuffle(entries)
        chosen = list({each.job_id: each for each in entries}.values())
        wishes = [(self._draw.choice(self._record.sessions[-6:]), each) for each in chosen]
        settled = self._draw.random() < 0.9
        leases = [each.ref for each in await self._core.claim(wishes, settled=settled)]
        self._record.leases += leases
        self._record.granted.update(each.job_id for each in leases)

    async def heartbeat(self) -> None:
        await self._core.heartbeat(self._some_leases(20))

    async def see_cancels(self) -> None:
        await self._core.see_cancels(self._some_leases(10))

    async def report(self) -> None:
        reports = [
            (lease, self._draw.choice([*Report, Report.SUCCESS, Report.SUCCESS]))
            for lease in self._some_leases(8)
        ]
        answers = await self._core.report(reports)
        for (lease, report), answer in zip(reports, answers, strict=True):
            self._record.answers.setdefault(lease, set()).add((report, answer))

    async def hello(self) -> None:
        incarnation_id = self._draw.choice(INCARNATIONS)
        session, _ = await self._core.hello(incarnation_id, self._some_leases(20))
        self._record.sessions.append(session)

    async def goodbye(self) -> None:
        if self._record.sessions:
            await self._core.goodbye(self._draw.choice(self._record.sessions[-6:]))

    def _some_leases(self, count_max: int) -> list[LeaseRef]:
        return unique_by_job(self._some(self._record.leases, count_max))

    def _some(self, known: Sequence[Any], count_max: int) -> list[Any]:
        recent = known[-REMEMBERED:]
        return self._draw.sample(recent, min(len(recent), self._draw.randint(1, count_max)))
