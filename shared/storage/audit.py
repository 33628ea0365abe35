"""Audit records: who did what, in whose name, to which job, batch or upload, and when.

A record is written by the transaction that has the effect, so there is one for each effect that lasts, and
none for what was rolled back, refused or answered as a replay. Jobs that the engine makes have no caller, and
leave none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa

from shared.domain.audit import AuditAction
from shared.domain.identity import JobId, Owner
from shared.storage import control_tables
from shared.storage.database import Connection
from shared.storage.list_conditions import Condition, behind, between
from shared.storage.rows import columns, unnested

_RECORDS = control_tables.audit_records


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One effect that lasts if its transaction does.

    Attributes:
        subject: That called.
        owner: That it acted for.
        aggregate_id: Of the job, batch or upload; None where the effect is on none of them.
        name: Of the queue or job type, where it is on one; else empty.
    """

    subject: Owner
    owner: Owner
    action: AuditAction
    aggregate_id: UUID | None = None
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """An entry as it is kept; the action is text, for newer versions know more of them."""

    audit_id: int
    subject: Owner
    owner: Owner
    action: str
    aggregate_id: UUID | None
    name: str
    record_time: datetime
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which records; what is None does not restrict."""

    subject: Owner | None = None
    aggregate_id: UUID | None = None
    recorded_from: datetime | None = None
    recorded_to: datetime | None = None


@dataclass(frozen=True, slots=True)
class AuditPosition:
    """A place in the list, newest first; the next page begins behind it."""

    record_time: datetime
    audit_id: int


_COLUMNS = {"subject": "text", "owner": "text", "action": "text", "aggregate_id": "uuid", "name": "text"}

_ADD = sa.text(f"""
insert into audit_records (subject, owner, action, aggregate_id, name, record_time, outcome)
select subject, owner, action, aggregate_id, name, engine_time(), 'OK' from {unnested(_COLUMNS, "e")}
""")

_ADD_FOR_JOBS = sa.text("""
insert into audit_records (subject, owner, action, aggregate_id, record_time, outcome)
select :subject, owner, :action, job_id, engine_time(), 'OK' from jobs
where job_id = any(cast(:job_ids as uuid[]))
""")


class Audit:
    """The table of records; its rows never change."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def add(self, entries: Sequence[AuditEntry]) -> None:
        """Record effects of this transaction; there may be none."""
        if entries:
            rows = [
                {
                    "subject": each.subject,
                    "owner": each.owner,
                    "action": str(each.action),
                    "aggregate_id": each.aggregate_id,
                    "name": each.name,
                }
                for each in entries
            ]
            await self._connection.execute(_ADD, columns(rows, _COLUMNS))

    async def add_for_jobs(self, subject: Owner, action: AuditAction, job_ids: Sequence[JobId]) -> None:
        """Record an effect on each of the jobs, in the names of their owners; there may be none."""
        if job_ids:
            parameters = {"subject": subject, "action": str(action), "job_ids": list(job_ids)}
            await self._connection.execute(_ADD_FOR_JOBS, parameters)

    async def page(
        self, wanted: AuditFilter, *, after: AuditPosition | None, limit: int
    ) -> list[AuditRecord]:
        """Return up to `limit` records, newest first, from behind `after` on, which is one of them."""
        rows = await self._connection.execute(page_statement(wanted, after=after, limit=limit))
        return [AuditRecord(**row) for row in rows.mappings()]


def page_statement(
    wanted: AuditFilter, *, after: AuditPosition | None, limit: int
) -> sa.Select[tuple[object, ...]]:
    """Make the statement that reads a page; each filter has an index in the order of the page."""
    return (
        sa.select(*_RECORDS.c)
        .where(*_conditions(wanted, after))
        .order_by(_RECORDS.c.record_time.desc(), _RECORDS.c.audit_id.desc())
        .limit(limit)
    )


def _conditions(wanted: AuditFilter, after: AuditPosition | None) -> Iterator[Condition]:
    if wanted.subject is not None:
        yield _RECORDS.c.subject == wanted.subject
    if wanted.aggregate_id is not None:
        yield _RECORDS.c.aggregate_id == wanted.aggregate_id
    # One upper bound, and the nearer one: with two, an index is read from the farther one on.
    yield from between(
        _RECORDS.c.record_time, wanted.recorded_from, wanted.recorded_to if after is None else None
    )
    if after is not None:
        yield behind(_RECORDS.c.record_time, _RECORDS.c.audit_id, (after.record_time, after.audit_id))
