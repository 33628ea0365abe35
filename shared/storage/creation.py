"""Makes jobs: the job, its input, event 1 and its dispatch row in one statement, for one or a thousand.

Where a caller asked for each job, the audit records are written by it too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from shared.domain.audit import AuditAction
from shared.domain.identity import BatchId, JobId, JobType, Owner, QueueName, StreamName, UploadId
from shared.domain.jobs import Job, JobState, Target
from shared.storage.database import Connection
from shared.storage.rows import columns, unnested


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job that is to be made; every value was checked against the catalog.

    Attributes:
        created_by: The subject that called; differs from the owner where a backend acts for its users.
        stream: The lease stream that carries its attempts.
        input: JSON text as it was sent.
        run_time: When it may start; None means at once.
        start_by: Cancelled if it has not started so long after its creation; `start_by_time` goes first.
        batch_item: Its number in the batch; whoever makes it counts it there.
    """

    job_id: JobId
    owner: Owner
    created_by: str
    job_type: JobType
    queue: QueueName
    stream: StreamName
    priority: int
    input: bytes
    input_schema_version: int
    output_schema_version: int
    credential_mode: str
    upload_id: UploadId | None = None
    target: Target | None = None
    labels: Mapping[str, str]
    run_time: datetime | None = None
    start_by_time: datetime | None = None
    start_by: timedelta | None = None
    credential_id: str = ""
    prompt_version: str = ""
    traceparent: str = ""
    origin_job_id: JobId | None = None
    batch_id: BatchId | None = None
    batch_item: int | None = None


_COLUMNS: Mapping[str, str] = {
    "job_id": "uuid",
    "owner": "text",
    "created_by": "text",
    "job_type": "text",
    "queue": "text",
    "stream": "text",
    "priority": "smallint",
    "input": "bytea",
    "input_schema_version": "integer",
    "output_schema_version": "integer",
    "credential_mode": "text",
    "upload_id": "uuid",
    "target_type": "text",
    "target_id": "text",
    "labels": "text",
    "run_time": "timestamptz",
    "start_by_time": "timestamptz",
    "start_by_seconds": "double precision",
    "credential_id": "text",
    "prompt_version": "text",
    "traceparent": "text",
    "origin_job_id": "uuid",
    "batch_id": "uuid",
    "batch_item": "integer",
}


def creation(items: str) -> sa.TextClause:
    """Make the statement that creates a job for each row of a SELECT.

    Args:
        items: Gives what `NewJob` has, `labels` as JSON, with `start_by` as a point in time or null, and
            with `now`, the time of creation, which is the same in all rows.

    The statement takes `action`, which each job's audit record has; null writes none.
    """
    return sa.text(f"""
with item as materialized ({items}),
job as (
    insert into jobs (
        job_id, owner, created_by, job_type, queue, stream, priority, target_type, target_id, labels,
        input_schema_version, output_schema_version, credential_mode, credential_id, prompt_version,
        traceparent, origin_job_id, batch_id, batch_item, create_time, next_attempt_time, start_by_time,
        event_count)
    select
        job_id, owner, created_by, job_type, queue, stream, priority, target_type, target_id, labels::jsonb,
        input_schema_version, output_schema_version, credential_mode, credential_id, prompt_version,
        traceparent, origin_job_id, batch_id, batch_item, now, coalesce(run_time, now), start_by, 1
    from item
),
snapshot as (
    insert into snapshots (job_id, input, upload_id) select job_id, input, upload_id from item
),
event as (
    insert into job_events (job_id, number, kind, state, attempt, event_time)
    select job_id, 1, 'created', 'QUEUED', 0, now from item
),
audit as (
    insert into audit_records (record_time, subject, owner, action, aggregate_id, outcome)
    select now, created_by, owner, cast(:action as text), job_id, 'OK' from item
    where cast(:action as text) is not null
)
insert into outbox (
    event_type, aggregate_type, aggregate_id, dedupe_key, payload, create_time, available_time,
    stream, owner, priority, attempt, start_by_time)
select
    'job.dispatch', 'job', job_id, format('job.dispatch:%s:%s', job_id, 1),
    jsonb_build_object(
        'job_id', job_id, 'job_type', job_type, 'queue', queue, 'priority', priority, 'attempt', 1),
    now, coalesce(run_time, now), stream, owner, priority, 1, start_by
from item
returning aggregate_id as job_id, create_time, available_time, start_by_time
""")


_CREATE = creation(f"""
    select i.*, t.now, coalesce(i.start_by_time, t.now + i.start_by_seconds * interval '1 second') as start_by
    from {unnested(_COLUMNS, "i")} cross join (select engine_time() as now) t
""")


class Creation:
    """Writes new jobs."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def create_jobs(
        self, new_jobs: Sequence[NewJob], *, action: AuditAction | None = None
    ) -> list[Job]:
        """Make jobs QUEUED, each with its input, its first event and the dispatch row of attempt 1.

        Args:
            new_jobs: May be empty; ids are new.
            action: What a caller did to each of them, for a record of its own; None where no caller asked
                for them one by one.

        Returns:
            The jobs as they are now, in the order given.
        """
        if not new_jobs:
            return []
        parameters = columns([_row(each) for each in new_jobs], _COLUMNS)
        made = await self._connection.execute(_CREATE, {**parameters, "action": action and str(action)})
        rows = {row.job_id: row for row in made}
        return [_created(each, rows[each.job_id]) for each in new_jobs]


def _created(job: NewJob, row: Any) -> Job:
    """Show a new job without reading it: all but the times is what was asked for."""
    return Job(
        job_id=job.job_id,
        owner=job.owner,
        job_type=job.job_type,
        queue=job.queue,
        state=JobState.QUEUED,
        priority=job.priority,
        progress=0,
        progress_message="",
        create_time=row.create_time,
        start_time=None,
        finish_time=None,
        start_by_time=row.start_by_time,
        next_attempt_time=row.available_time,
        attempt=0,
        failures=0,
        losses=0,
        error=None,
        cancellation=None,
        artifact_count=0,
        output_hash="",
        origin_job_id=job.origin_job_id,
        target=job.target,
        labels=job.labels,
        input_schema_version=job.input_schema_version,
        output_schema_version=job.output_schema_version,
        last_event_number=1,
        batch_id=job.batch_id,
        batch_item=job.batch_item,
    )


def _row(job: NewJob) -> Mapping[str, Any]:
    fields = {name: getattr(job, name) for name in _COLUMNS if hasattr(job, name)}
    return fields | {
        "target_type": job.target and job.target.type,
        "target_id": job.target and job.target.id,
        "labels": json.dumps(dict(job.labels)),
        "start_by_seconds": job.start_by and job.start_by.total_seconds(),
    }
