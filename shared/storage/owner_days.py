"""How many jobs each owner has created, by UTC day; and the place where those who create for one owner meet.

Nothing is here of owners without limits. A row begins with the jobs that its owner has created on that day
before, and from then on counts each job in the transaction that creates it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import sqlalchemy as sa

from shared.domain.identity import Owner
from shared.storage import open_jobs
from shared.storage.database import Connection
from shared.storage.rows import columns, unnested


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerUsage:
    """What an owner had used before the jobs that were reserved; the clock is the database's.

    Attributes:
        day: On which they are counted.
        active: Jobs that have not ended, counted up to a limit.
        day_jobs: Created on this day.
        month_jobs: Created in this month, as far as its days were counted.
    """

    day: date
    active: int
    day_jobs: int
    month_jobs: int
    until_next_day: timedelta
    until_next_month: timedelta


_WISHES = {"owner": "text", "jobs": "integer"}
_UNUSED = _WISHES | {"day": "date"}

# Just after midnight the day before is touched too, without a job: who began before then may still hold it.
_MIDNIGHT = "interval '1 minute'"
_RESERVE = sa.text(f"""
with t as (
    select now, now::date as day from (select engine_time() at time zone 'UTC' as now) n
),
wish as (
    select owner, t.day, jobs from {unnested(_WISHES, "w")} cross join t
    union all
    select owner, t.day - 1, 0 from {unnested(_WISHES, "w")} cross join t where t.now < t.day + {_MIDNIGHT}
)
insert into owner_days as d (owner, day, jobs)
select owner, day, jobs from wish order by day, owner
on conflict (owner, day) do update set jobs = d.jobs + excluded.jobs
returning d.owner, d.day, d.xmax = 0 as is_new
""")

_BEGIN = sa.text("""
update owner_days d set jobs = d.jobs + (
    select count(*) from jobs j
    where j.owner = d.owner and j.create_time >= cast(d.day as timestamp) at time zone 'UTC'
        and j.create_time < cast(d.day + 1 as timestamp) at time zone 'UTC')
from unnest(cast(:owner as text[]), cast(:day as date[])) as n(owner, day)
where d.owner = n.owner and d.day = n.day
""")

# Read by a statement of its own: it sees what those who held the rows before have committed.
_USAGE = sa.text(f"""
select
    d.owner, d.jobs as day_jobs, greatest(d.day + 1 - t.now, interval '0') as until_next_day,
    greatest(u.month + interval '1 month' - t.now, interval '0') as until_next_month,
    (
        select sum(m.jobs) from owner_days m
        where m.owner = d.owner and m.day >= u.month::date and m.day <= d.day
    ) as month_jobs,
    {open_jobs.count("d.owner", at_most=":active_max")} as active
from owner_days d
cross join lateral (select date_trunc('month', d.day::timestamp) as month) u
cross join (select engine_time() at time zone 'UTC' as now) t
where d.owner = any(cast(:owners as text[])) and d.day = cast(:day as date)
""")

_GIVE_BACK = sa.text(f"""
update owner_days d set jobs = d.jobs - w.jobs
from {unnested(_UNUSED, "w")} where d.owner = w.owner and d.day = w.day
""")

_COUNT = sa.text(f"""
with held as (
    select d.owner, d.day, w.jobs from owner_days d join {unnested(_WISHES, "w")} using (owner)
    where d.day = (engine_time() at time zone 'UTC')::date
    order by d.owner for update of d
)
update owner_days d set jobs = d.jobs + held.jobs from held where d.owner = held.owner and d.day = held.day
""")

_REMOVE = sa.text("""
delete from owner_days where (owner, day) in (
    select owner, day from owner_days
    where day < (select (engine_time() at time zone 'UTC' - cast(:age as interval))::date)
    order by day limit :limit for update skip locked)
""")


class OwnerDays:
    """One row for each owner and day with limits."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def reserve(self, wishes: Mapping[Owner, int], *, active_max: int) -> Mapping[Owner, OwnerUsage]:
        """Count jobs that are about to be created, and return what their owners had used before.

        Others that create for one of the owners wait until this transaction has ended, and then see what it
        has created. What is not created after all is to be given back.

        Args:
            wishes: How many jobs for whom; at least one owner.
            active_max: Open jobs are counted up to so many; 0 counts none.
        """
        parameters = columns([{"owner": owner, "jobs": jobs} for owner, jobs in wishes.items()], _WISHES)
        reserved = (await self._connection.execute(_RESERVE, parameters)).all()
        new = [row for row in reserved if row.is_new]
        if new:
            begun = {"owner": [row.owner for row in new], "day": [row.day for row in new]}
            await self._connection.execute(_BEGIN, begun)
        day: date = max(row.day for row in reserved)
        rows = await self._connection.execute(
            _USAGE, {"owners": list(wishes), "day": day, "active_max": active_max}
        )
        return {
            row.owner: OwnerUsage(
                day=day,
                active=row.active,
                day_jobs=row.day_jobs - wishes[row.owner],
                month_jobs=row.month_jobs - wishes[row.owner],
                until_next_day=row.until_next_day,
                until_next_month=row.until_next_month,
            )
            for row in rows
        }

    async def give_back(self, unused: Sequence[tuple[Owner, date, int]]) -> None:
        """Count jobs no more that this transaction has reserved and does not create; there may be none."""
        if unused:
            rows = [{"owner": owner, "day": day, "jobs": jobs} for owner, day, jobs in unused]
            await self._connection.execute(_GIVE_BACK, columns(rows, _UNUSED))

    async def count(self, created: Mapping[Owner, int]) -> None:
        """Count jobs that no caller asked for, where their owner's day is counted at all.

        Those of a transaction that commits in the moment in which a row begins may be missed.
        """
        if created:
            rows = [{"owner": owner, "jobs": jobs} for owner, jobs in created.items()]
            await self._connection.execute(_COUNT, columns(rows, _WISHES))

    async def remove_old(self, *, age: timedelta, limit: int) -> int:
        """Remove up to `limit` rows of days so long ago, and return how many."""
        return (await self._connection.execute(_REMOVE, {"age": age, "limit": limit})).rowcount
