"""Idempotency keys: which job or batch each key of an owner and job type stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

import sqlalchemy as sa

from shared.domain.identity import BatchId, JobId, JobType, Owner
from shared.storage.database import Connection
from shared.storage.rows import columns, unnested


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A caller's key; it is the owner's own, and one for each job type."""

    owner: Owner
    job_type: JobType
    key: str

    @classmethod
    def of(cls, owner: Owner, job_type: JobType, key: str | None) -> Self | None:
        """Return the key of a call; None where it came without one."""
        return None if key is None else cls(owner, job_type, key)


@dataclass(frozen=True, slots=True)
class KeyClaim:
    """A wish to bind a key to a new job or batch; the fingerprint is a SHA-256 over the call's content."""

    key: IdempotencyKey
    fingerprint: bytes
    job_id: JobId | None
    batch_id: BatchId | None = None


@dataclass(frozen=True, slots=True)
class Binding:
    """What a key stands for: a job or a batch, whose calls have no fingerprint in common."""

    job_id: JobId | None
    fingerprint: bytes
    batch_id: BatchId | None = None


_COLUMNS = {
    "owner": "text",
    "job_type": "text",
    "key": "text",
    "fingerprint": "bytea",
    "job_id": "uuid",
    "batch_id": "uuid",
}

# In the order of keys, so that callers do not wait in a circle; of one key the first claim comes first.
_CLAIM = sa.text(f"""
insert into idempotency_keys (owner, job_type, key, fingerprint, job_id, batch_id, expire_time)
select owner, job_type, key, fingerprint, job_id, batch_id, engine_time() + cast(:kept_for as interval)
from (select c.*, row_number() over () as place from {unnested(_COLUMNS, "c")}) numbered
order by owner, job_type, key, place
on conflict do nothing
""")

_KEY = {name: _COLUMNS[name] for name in ("owner", "job_type", "key")}
_READ = sa.text(f"""
select k.owner, k.job_type, k.key, k.fingerprint, k.job_id, k.batch_id from idempotency_keys k
join {unnested(_KEY, "c")} using (owner, job_type, key)
""")

_RELEASE = sa.text(f"""
delete from idempotency_keys k using {unnested(_KEY, "c")}
where (k.owner, k.job_type, k.key) = (c.owner, c.job_type, c.key)
""")


class IdempotencyKeys:
    """One row a key."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def claim(
        self, claims: Sequence[KeyClaim], *, kept_for: timedelta
    ) -> Mapping[IdempotencyKey, Binding]:
        """Bind the keys that are free, and return what each key stands for now.

        Where callers race for a key, one binds it and the others wait until that one's transaction has
        ended. Of two claims for one key in one call the first binds it.

        Args:
            claims: May be empty.
        """
        if not claims:
            return {}
        rows = [
            {
                "owner": each.key.owner,
                "job_type": each.key.job_type,
                "key": each.key.key,
                "fingerprint": each.fingerprint,
                "job_id": each.job_id,
                "batch_id": each.batch_id,
            }
            for each in claims
        ]
        parameters = columns(rows, _COLUMNS)
        named = {name: parameters[name] for name in _KEY}
        bound = dict[IdempotencyKey, Binding]()
        # A bound key may expire and be removed before it is read: it is free then, and bound the next time.
        while any(each.key not in bound for each in claims):
            await self._connection.execute(_CLAIM, {**parameters, "kept_for": kept_for})
            bound = {
                IdempotencyKey(row.owner, row.job_type, row.key): Binding(
                    row.job_id, row.fingerprint, row.batch_id
                )
                for row in await self._connection.execute(_READ, named)
            }
        return bound

    async def release(self, keys: Sequence[IdempotencyKey]) -> None:
        """Free keys that this transaction has bound, and that stand for nothing after all; may be empty."""
        if keys:
            rows = [{"owner": each.owner, "job_type": each.job_type, "key": each.key} for each in keys]
            await self._connection.execute(_RELEASE, columns(rows, _KEY))
