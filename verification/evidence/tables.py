"""What the database has of the jobs of one run, read at one moment by a statement of the suite's own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import asyncpg

Row = Mapping[str, Any]

LABEL = "verify"
"""Every job that the suite creates carries this label, with the run's name as its value."""
OF_RUN = f"labels @> jsonb_build_object('{LABEL}', $1::text)"
"""Chooses jobs by their run, which is the first argument of the statement."""

_ROWS_AT_ONCE = 10_000

# One statement has one snapshot, so that rows of one change are never seen apart. Large columns stay there.
_READ = """
with chosen as materialized (select job_id from jobs where labels @> jsonb_build_object($1::text, $2::text))
select 'jobs' as place, job_id, to_jsonb(t) as body, 0 as number from jobs t join chosen using (job_id)
union all select 'snapshots', job_id, jsonb_build_object('input_bytes', length(input)), 0
    from snapshots join chosen using (job_id)
union all select 'leases', job_id, to_jsonb(t), 0 from leases t join chosen using (job_id)
union all select 'attempts', job_id, to_jsonb(t) - 'output' || jsonb_build_object(
        'output_sha256', encode(sha256(output), 'hex'),
        'output_attempt', convert_from(output, 'UTF8')::jsonb -> 'attempt'), attempt
    from attempts t join chosen using (job_id)
union all select 'events', job_id, to_jsonb(t), number from job_events t join chosen using (job_id)
union all select 'artifacts', job_id, to_jsonb(t) - 'content', ordinal
    from artifacts t join chosen using (job_id)
union all select 'pieces', job_id, to_jsonb(t), number from output_pieces t join chosen using (job_id)
union all select 'results', job_id, to_jsonb(t), 0 from synthetic_results t join chosen using (job_id)
union all select 'keys', job_id, to_jsonb(t), 0 from idempotency_keys t join chosen using (job_id)
union all select 'audits', aggregate_id, to_jsonb(t), audit_id
    from audit_records t join chosen on aggregate_id = job_id
union all select case event_type when 'job.dispatch' then 'dispatches' else 'outgoing' end,
    aggregate_id, to_jsonb(t), outbox_id from outbox t join chosen on aggregate_id = job_id
order by 4
"""


@dataclass(slots=True)
class JobRows:
    """The rows about one job, by table, first to last where rows are numbered; times are ISO 8601 text."""

    jobs: list[Row] = field(default_factory=list)
    snapshots: list[Row] = field(default_factory=list)
    leases: list[Row] = field(default_factory=list)
    attempts: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    artifacts: list[Row] = field(default_factory=list)
    pieces: list[Row] = field(default_factory=list)
    results: list[Row] = field(default_factory=list)
    keys: list[Row] = field(default_factory=list)
    dispatches: list[Row] = field(default_factory=list)
    outgoing: list[Row] = field(default_factory=list)
    audits: list[Row] = field(default_factory=list)

    @property
    def job(self) -> Row:
        return self.jobs[0]

    @property
    def lease(self) -> Row | None:
        return self.leases[0] if self.leases else None

    @property
    def dispatch(self) -> Row | None:
        """The dispatch row, while the job waits for an executor."""
        return self.dispatches[0] if self.dispatches else None

    @property
    def state(self) -> str:
        return str(self.job["state"])


Tables = Mapping[str, JobRows]
"""By job id."""


async def read(database_url: str, run: str) -> Tables:
    """Read all rows about the jobs that carry a run's label."""
    connection = await asyncpg.connect(database_url, ssl=False)
    try:
        found: dict[str, JobRows] = {}
        async with connection.transaction(readonly=True):
            cursor = await connection.cursor(_READ, LABEL, run)
            while rows := await cursor.fetch(_ROWS_AT_ONCE):
                take_in(found, [(row["place"], str(row["job_id"]), row["body"]) for row in rows])
        return found
    finally:
        await connection.close()


def take_in(found: dict[str, JobRows], rows: Sequence[tuple[str, str, str]]) -> None:
    """Add rows, each as its place, its job and its JSON; read together, they share the names of columns."""
    bodies = json.loads(f"[{','.join(body for _, _, body in rows)}]")
    for (place, job_id, _), body in zip(rows, bodies, strict=True):
        getattr(found.setdefault(job_id, JobRows()), place).append(body)
