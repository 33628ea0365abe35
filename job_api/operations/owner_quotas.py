"""How many jobs an owner may have at a time, and create in a day or month.

Who is authoritative: the database, where all who create for one owner wait for each other from the moment in
which they ask until they commit. So of any number of calls exactly as many get through as there is room for.

What is promised. Where no limit is set, nothing is read, locked or written. A replay is free: it creates
nothing. A job that a projector creates is counted like all others, and never refused: what its chain has
begun goes on. Days and months are UTC's; a month counts the days from the one on which a limit was first set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from typing import TypeAlias

from shared.domain.errors import QuotaExceeded, TooManyJobs
from shared.domain.identity import Owner
from shared.storage.owner_days import OwnerUsage
from shared.storage.transactions import Transaction

Refusal: TypeAlias = TooManyJobs | QuotaExceeded


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerLimits:
    """What each owner may have at most; None is no limit."""

    active_jobs: int | None = None
    jobs_per_day: int | None = None
    jobs_per_month: int | None = None

    @property
    def are_set(self) -> bool:
        return (self.active_jobs, self.jobs_per_day, self.jobs_per_month) != (None, None, None)


@dataclass(frozen=True, slots=True)
class Reservation:
    """Why jobs can't be created, one answer for each; None where it can, and then it is counted.

    Attributes:
        days: On which they are counted, by owner; empty where they are not.
    """

    refusals: Sequence[Refusal | None]
    days: Mapping[Owner, date] = field(default_factory=dict)


class OwnerQuotas:
    """Asked in the transaction that creates, behind idempotency keys and the locks of old jobs."""

    def __init__(self, limits: OwnerLimits) -> None:
        self._limits = limits

    async def reserve(self, transaction: Transaction, owners: Sequence[Owner]) -> Reservation:
        """Say which of some new jobs can be created: of each owner's, as many of the first as fit.

        Args:
            owners: Of the jobs, in the order in which they are to be created; may be empty.
        """
        if not owners or not self._limits.are_set:
            return Reservation([None] * len(owners))
        usages = await transaction.owner_days.reserve(
            Counter(owners), active_max=self._limits.active_jobs or 0
        )
        rooms = {owner: self._room(usage) for owner, usage in usages.items()}
        seen = Counter[Owner]()
        refusals = list[Refusal | None]()
        for owner in owners:
            seen[owner] += 1
            refusals.append(rooms[owner].refusal() if seen[owner] > rooms[owner].jobs else None)
        reservation = Reservation(refusals, {owner: usage.day for owner, usage in usages.items()})
        refused = [owner for owner, refusal in zip(owners, refusals, strict=True) if refusal]
        await self.give_back(transaction, reservation, refused)
        return reservation

    async def give_back(
        self, transaction: Transaction, reservation: Reservation, owners: Iterable[Owner]
    ) -> None:
        """Count those jobs no more that were reserved and are not created, one for each owner named."""
        if reservation.days:
            unused = [(owner, reservation.days[owner], jobs) for owner, jobs in Counter(owners).items()]
            await transaction.owner_days.give_back(unused)

    async def require(self, transaction: Transaction, owner: Owner, jobs: int) -> None:
        """Count so many new jobs, all or none.

        Raises:
            TooManyJobs: The owner may not have so many at a time.
            QuotaExceeded: The owner may not create so many in this day or month.
        """
        reservation = await self.reserve(transaction, [owner] * jobs)
        for refusal in reservation.refusals:
            if refusal is not None:
                raise refusal

    def _room(self, usage: OwnerUsage) -> _Room:
        """Return what the tightest limit leaves; of equal ones, the one that lasts longest."""
        rooms = [
            _Room(limit - used, refusal) for limit, used, refusal in self._used(usage) if limit is not None
        ]
        return min(rooms, key=lambda room: room.jobs)

    def _used(self, usage: OwnerUsage) -> Iterator[tuple[int | None, int, Callable[[], Refusal]]]:
        limits = self._limits
        until_next_month, until_next_day = usage.until_next_month, usage.until_next_day
        month = partial(QuotaExceeded, "jobs_per_month", until_next_month)
        yield limits.jobs_per_month, usage.month_jobs, month
        yield limits.jobs_per_day, usage.day_jobs, partial(QuotaExceeded, "jobs_per_day", until_next_day)
        yield limits.active_jobs, usage.active, partial(TooManyJobs, limits.active_jobs or 0)


@dataclass(frozen=True, slots=True)
class _Room:
    """For so many jobs more, and how the next one is refused."""

    jobs: int
    refusal: Callable[[], Refusal]


NO_QUOTAS = OwnerQuotas(OwnerLimits())
