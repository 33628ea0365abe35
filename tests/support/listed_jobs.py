"""Very many jobs and batches, made by the database itself; as far as lists read, their rows are real ones.

Half of all are of one owner, the others of 199; job types, targets and labels are of all sizes. Open jobs are
the newest, but for a few that wait since long ago, scattered over the whole time.
"""

from __future__ import annotations

import asyncpg

LARGE_OWNER, SMALL_OWNER = "owner-0", "owner-77"
LARGE_TYPE, RARE_TYPE = "type_0", "type_11"
RARE_TARGET_TYPE = "exam"
BATCH = "018f1111-0000-7000-8000-00000000000b"
"""A batch of 1,000 items."""
SECONDS_APART = 2
"""From the beginning of 2026 on, one job is created after the other."""

_OPEN_PART, _OPEN_EARLY, _LEASES = 50, 400, 50

# Bare tables are filled several times as fast as indexed ones.
_INDEXES = """
select indexname as name, indexdef as definition from pg_indexes
where tablename = any($1::text[]) and indexname not in (select conname from pg_constraint)
"""

# h and g are numbers from 0 to 999 that have nothing to do with the order, nor with each other.
_LISTED = f"""
create temp table listed as
with numbered as (
    select n, (hashint8(n)::bigint & 2147483647) % 1000 as h,
        (hashint8(n + 5)::bigint & 2147483647) % 1000 as g,
        n > $1::bigint - $1 / {_OPEN_PART} + {_OPEN_EARLY} or n % ($1 / {_OPEN_EARLY}) = 1 as open
    from generate_series(1, $1::bigint) as n
)
select n, h, g, ('018f0000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid as id,
    case when h % 2 = 0 then 'owner-0' else 'owner-' || 1 + (h * 7 + g) % 199 end as owner,
    'type_' || case
        when h < 400 then 0 when h < 600 then 1 when h < 750 then 2 when h < 999 then 3 + h % 8 else 11
    end as job_type,
    case when g < 700 then 'document' when g < 900 then 'course' when g < 905 then 'exam' end as target_type,
    case when g < 700 then 'doc-' || md5(n::text) when g < 900 then 'course-' || n % 1000
        when g < 905 then 'exam-' || n end as target_id,
    timestamptz '2026-01-01 00:00:00+00' + n * interval '{SECONDS_APART} seconds' as create_time,
    case when open and n % 300 = 3 then 'RUNNING' when open then 'QUEUED'
        when g % 100 < 3 then 'FAILED' when g % 100 = 3 then 'CANCELLED' else 'SUCCEEDED' end as state
from numbered
"""

_JOBS = """
insert into jobs (
    job_id, owner, created_by, job_type, queue, stream, priority, state, target_type, target_id, labels,
    input_schema_version, output_schema_version, credential_mode, create_time, start_time, finish_time,
    attempt, cancel_request_time, error_code, error_message, output_hash, event_count, batch_id, batch_item)
select
    id, owner, owner, job_type, replace(job_type, 'type', 'queue'), 'stream', 50, state, target_type,
    target_id, case
        when n % 50000 = 1 then '{"incident": "incident-1", "tier": "gold"}'::jsonb
        when h < 500 then '{}' else jsonb_build_object('course', 'course-' || n % 500, 'tier', 'gold') end,
    1, 1, 'platform_key', create_time,
    case when state <> 'QUEUED' then create_time + interval '1 second' end,
    case when state in ('SUCCEEDED', 'FAILED', 'CANCELLED') then create_time + interval '1 minute' end,
    (state <> 'QUEUED')::integer,
    case when state = 'CANCELLED' then create_time + interval '50 seconds' end,
    case when state = 'FAILED' then 'INPUT_BROKEN' end,
    case when state = 'FAILED' then format('page %s of the file could not be read', n % 9973) end,
    case when state = 'SUCCEEDED' then md5(n::text) else '' end, 3,
    case when n / 1000 % 10 = 1
        then ('018f1111-0000-7000-8000-' || lpad(to_hex(n / 1000), 12, '0'))::uuid end,
    case when n / 1000 % 10 = 1 then 1 + n % 1000 end
from listed order by n
"""

_LEASED = f"""
insert into leases (
    job_id, job_type, owner, attempt, token, session_id, incarnation_id, executor_name, grant_time,
    heartbeat_time, deadline_time, reprieve_time, lease_seconds, grace_seconds)
select id, job_type, owner, 1, 'token', id, id, 'executor', t, t, t, t, 30, 30
from (select *, create_time as t from listed where state = 'RUNNING' order by n desc limit {_LEASES}) leased
"""

_WAITING = """
insert into outbox (
    event_type, aggregate_type, aggregate_id, dedupe_key, payload, create_time, available_time, stream, owner,
    priority, attempt)
select
    'job.dispatch', 'job', id, format('job.dispatch:%s:%s', id, attempt), jsonb_build_object('job_id', id),
    create_time, create_time, 'stream', owner, 50, attempt
from (
    select *, case state when 'QUEUED' then 1 else 2 end as attempt from listed
    where state in ('QUEUED', 'RUNNING') and id not in (select job_id from leases) order by n
) waiting
"""

_BATCHES = """
insert into batches (
    batch_id, owner, created_by, job_type, title, target_type, target_id, labels, state, size, waiting,
    running, succeeded, failed, skipped, create_time, event_count)
select
    id, owner, owner, job_type, case when n % 20000 = 1 then 'The lost reel' else 'Chapter ' || n end,
    target_type, target_id, '{}', case
        when state <> 'SUCCEEDED' then state when h < 10 then 'AWAITING_REVIEW' else 'STORED' end,
    1, 0, 0, 1, 0, 0, create_time, 1
from listed order by n
"""


async def fill_jobs(connection: asyncpg.Connection, count: int) -> None:
    """Create jobs in all states, of which a fiftieth is open; with 1,000,000 it takes a minute.

    Args:
        connection: Of a superuser, on a database without jobs.
    """
    await _fill(connection, count, ("jobs", "outbox", "leases"), (_JOBS, _LEASED, _WAITING))


async def fill_batches(connection: asyncpg.Connection, count: int) -> None:
    """Create batches in all states.

    Args:
        connection: Of a superuser, on a database without batches.
    """
    await _fill(connection, count, ("batches",), (_BATCHES,))


async def _fill(
    connection: asyncpg.Connection, count: int, tables: tuple[str, ...], inserts: tuple[str, ...]
) -> None:
    indexes = await connection.fetch(_INDEXES, list(tables))
    await connection.execute("set session_replication_role = replica; set maintenance_work_mem = '256MB'")
    for index in indexes:
        await connection.execute(f"drop index {index['name']}")
    await connection.execute(_LISTED.replace("$1", str(count)))
    for insert in inserts:
        await connection.execute(insert)
    for index in indexes:
        await connection.execute(index["definition"])
    await connection.execute("drop table listed")
    for table in tables:
        await connection.execute(f"vacuum (analyze) {table}")
