"""What is used up of job types' limits: counted when a dispatcher asks, and never kept, so nothing drifts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from shared.domain.identity import JobType, Owner, StreamName
from shared.domain.leases import TypeLimits
from shared.storage.database import Connection
from shared.storage.dispatch_statements import DELIVERED, stream_walk


def rate_spent(per_second: str, spent_time: str) -> str:
    """Render until when the tokens of a rate are spent: now, if none is.

    Nothing is spent for longer than a second's worth, or one lease, takes. A time beyond that is from a lower
    rate, which a deployment has raised since, and does not count.
    """
    return f"""case
        when {spent_time} > engine_time() + greatest(1, 1 / {per_second}) * interval '1.001 seconds'
        then engine_time() else greatest({spent_time}, engine_time()) end"""


def rate_tokens(per_second: str, spent_time: str) -> str:
    """Render how many leases a rate allows now: a second's worth, at least one, less what is spent of it."""
    return f"""floor(greatest(1, {per_second})
        - extract(epoch from {rate_spent(per_second, spent_time)} - engine_time()) * {per_second})"""


# One statement, so that an attempt which is claimed meanwhile is either delivered or leased, and never both.
USAGE = sa.text(f"""
with recursive stream as ({stream_walk(DELIVERED)})
select 'leased' as kind, l.job_type as name, l.owner, count(*)::integer as number from leases l
where l.limited and l.job_type = any(cast(:job_types as text[])) group by l.job_type, l.owner
union all
select 'delivered', s.stream, o.owner, count(*)
from stream s join outbox o on {DELIVERED} and o.stream = s.stream
where split_part(s.stream, ':', 2) = any(cast(:job_types as text[])) group by s.stream, o.owner
union all
select 'tokens', v.job_type, '', {rate_tokens("v.per_second", "l.rate_spent_time")}::integer
from unnest(cast(:job_types as text[]), cast(:per_second as double precision[])) as v(job_type, per_second)
left join lease_limits l using (job_type) where v.per_second is not null
""")


@dataclass(frozen=True, slots=True)
class LimitUsage:
    """What is used up, at one moment; where nothing is, nothing is named.

    Attributes:
        leased: Leases by job type and owner.
        delivered: Attempts that streams hold and nobody has claimed, by stream and owner.
        tokens: Leases that a type's rate allows now; at least 0.
    """

    leased: Mapping[JobType, Mapping[Owner, int]]
    delivered: Mapping[StreamName, Mapping[Owner, int]]
    tokens: Mapping[JobType, int]


class LeaseLimits:
    """Reads only: what is granted within the limits is the claim's to decide."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def usage(self, limits: Collection[TypeLimits]) -> LimitUsage:
        """Return what is used up of these limits, one for each job type."""
        parameters = {
            "job_types": [each.job_type for each in limits],
            "per_second": [each.per_second for each in limits],
        }
        leased: dict[JobType, dict[Owner, int]] = {}
        delivered: dict[StreamName, dict[Owner, int]] = {}
        tokens: dict[JobType, int] = {}
        for row in await self._connection.execute(USAGE, parameters):
            if row.kind == "leased":
                leased.setdefault(row.name, {})[row.owner] = row.number
            elif row.kind == "delivered":
                delivered.setdefault(row.name, {})[row.owner] = row.number
            else:
                tokens[row.name] = max(0, row.number)
        return LimitUsage(leased, delivered, tokens)
