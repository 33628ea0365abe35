"""Removes what has expired, in bounded steps."""

from __future__ import annotations

from datetime import timedelta

import sqlalchemy as sa

from shared.storage import batch_guards, guards
from shared.storage.database import Connection

# A key is never kept shorter than its job lives, or than its batch takes to settle.
_KEYS = sa.text(f"""
delete from idempotency_keys k where (k.owner, k.job_type, k.key) in (
    select k.owner, k.job_type, k.key from idempotency_keys k
    left join jobs j on j.job_id = k.job_id left join batches b on b.batch_id = k.batch_id
    where k.expire_time < engine_time() and ({guards.terminal()} or not {batch_guards.still_open()})
    order by k.owner, k.job_type, k.key limit :limit for update of k skip locked)
""")

_UNUSED = "not exists (select from snapshots s where s.upload_id = u.upload_id)"
_LOCK_UPLOADS = sa.text(f"""
select u.upload_id from uploads u where u.create_time < engine_time() - cast(:age as interval) and {_UNUSED}
order by u.upload_id limit :limit for update skip locked
""")
# Asked again once they are locked: a job that refers to one may have been committed since the first look.
_UPLOADS = sa.text(
    f"delete from uploads u where u.upload_id = any(cast(:upload_ids as uuid[])) and {_UNUSED}"
)


class Retention:
    """What nobody needs any more."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def remove_expired_keys(self, *, limit: int) -> int:
        """Remove up to `limit` expired keys of what has ended or settled; the keys are free again."""
        return (await self._connection.execute(_KEYS, {"limit": limit})).rowcount

    async def remove_unused_uploads(self, *, age: timedelta, limit: int) -> int:
        """Remove up to `limit` documents older than `age` that no job's input refers to."""
        locked = await self._connection.execute(_LOCK_UPLOADS, {"age": age, "limit": limit})
        upload_ids = [row.upload_id for row in locked]
        if not upload_ids:
            return 0
        return (await self._connection.execute(_UPLOADS, {"upload_ids": upload_ids})).rowcount
