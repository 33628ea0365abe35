"""What jobs need to run: outbox, sessions, leases, attempts, events, artifacts.

Columns that heartbeats touch are in no index, so that a heartbeat stays on its page. Of the outbox and of
leases nearly every row is dead soon, whatever the number of those that are not: they are vacuumed by count.
"""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_UPGRADE = (
    """
    create table outbox (
        outbox_id bigint generated always as identity primary key,
        event_type text not null,
        aggregate_type text not null,
        aggregate_id uuid not null,
        dedupe_key text not null unique,
        payload jsonb not null,
        state text not null default 'pending' check (state in ('pending', 'delivered', 'dead')),
        tries smallint not null default 0,
        create_time timestamptz not null,
        available_time timestamptz not null,
        delivered_time timestamptz,
        last_error_code text not null default '',
        last_error_message text not null default '',
        stream text,
        owner text,
        priority smallint,
        attempt integer,
        start_by_time timestamptz,
        check (event_type <> 'job.dispatch'
            or num_nonnulls(stream, owner, priority, attempt) = 4)
    ) with (
        autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0)
    """,
    """
    create index outbox_dispatches_pending on outbox (stream, owner, priority, available_time, outbox_id)
        where event_type = 'job.dispatch' and state = 'pending'
    """,
    """
    create index outbox_dispatches_delivered on outbox (stream, delivered_time)
        where event_type = 'job.dispatch' and state = 'delivered'
    """,
    """
    create index outbox_events_pending on outbox (outbox_id)
        where event_type <> 'job.dispatch' and state = 'pending'
    """,
    """
    create index outbox_dispatches_by_start_by on outbox (start_by_time) where start_by_time is not null
    """,
    """
    create table executor_sessions (
        incarnation_id uuid primary key,
        session_id uuid not null,
        executor_name text not null,
        runtime text not null,
        job_types text[] not null,
        hello_time timestamptz not null
    )
    """,
    """
    create table leases (
        job_id uuid primary key,
        attempt integer not null,
        token text not null,
        session_id uuid not null,
        incarnation_id uuid not null,
        executor_name text not null,
        accepted boolean not null default false,
        grant_time timestamptz not null,
        heartbeat_time timestamptz not null,
        deadline_time timestamptz not null,
        reprieve_time timestamptz not null,
        lease_seconds double precision not null,
        grace_seconds double precision not null,
        progress smallint not null default 0,
        progress_message text not null default ''
    ) with (
        fillfactor = 50,
        autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0)
    """,
    "create index leases_by_incarnation on leases (incarnation_id)",
    """
    create table attempts (
        job_id uuid not null,
        attempt integer not null,
        token text not null,
        incarnation_id uuid not null,
        executor_name text not null,
        start_time timestamptz not null,
        end_time timestamptz not null,
        outcome text not null check (
            outcome in ('succeeded', 'failed', 'timed_out', 'lost', 'cancelled', 'given_back')),
        error_code text,
        error_message text,
        error_internal text,
        suspect boolean not null default false,
        report_hash text not null default '',
        answer text not null default '',
        output bytea,
        primary key (job_id, attempt)
    )
    """,
    """
    create table job_events (
        job_id uuid not null,
        number bigint not null,
        kind text not null,
        state text not null,
        attempt integer not null,
        event_time timestamptz not null,
        outcome text,
        error_code text,
        error_message text,
        error_internal text,
        next_attempt_time timestamptz,
        forced boolean not null default false,
        primary key (job_id, number)
    )
    """,
    """
    create table artifacts (
        job_id uuid not null,
        artifact_type text not null,
        artifact_id text not null,
        ordinal integer not null,
        content bytea,
        primary key (job_id, artifact_type, artifact_id)
    )
    """,
    "create unique index artifacts_by_ordinal on artifacts (job_id, ordinal)",
    """
    create table output_pieces (
        job_id uuid not null,
        attempt integer not null,
        number integer not null,
        content text not null,
        primary key (job_id, attempt, number)
    )
    """,
    # One row: when any worker last said that the services live.
    """
    create table pulse (
        singleton boolean primary key default true check (singleton),
        pulse_time timestamptz not null
    )
    """,
    "insert into pulse (pulse_time) values (engine_time())",
    # Of the shipped projector `knowledge_items`.
    """
    create table knowledge_items (
        job_id uuid not null,
        ordinal integer not null,
        owner text not null,
        heading_path text[] not null,
        content text not null,
        characters integer not null,
        sha256 text not null,
        page integer,
        primary key (job_id, ordinal)
    )
    """,
    # Of the shipped projector `synthetic`.
    """
    create table synthetic_results (
        job_id uuid primary key,
        items integer not null,
        attempt integer not null
    )
    """,
)


def upgrade() -> None:
    for statement in _UPGRADE:
        op.execute(statement)


def downgrade() -> None:
    op.execute(
        "drop table synthetic_results, knowledge_items, pulse, output_pieces, artifacts, job_events, "
        "attempts, leases, executor_sessions, outbox"
    )
