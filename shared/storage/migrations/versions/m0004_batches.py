"""Batches, limits, pauses, and records of what callers did.

Columns that large tables get are null or have a constant default, so no row is rewritten. What an older
version writes meanwhile has no batch and no limit.
"""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_COUNTERS = """
        waiting integer not null check (waiting >= 0),
        running integer not null check (running >= 0),
        succeeded integer not null check (succeeded >= 0),
        failed integer not null check (failed >= 0),
        skipped integer not null check (skipped >= 0),
"""

_UPGRADE = (
    f"""
    create table if not exists batches (
        batch_id uuid primary key,
        owner text not null,
        created_by text not null,
        job_type text not null,
        title text not null,
        target_type text,
        target_id text,
        labels jsonb not null,
        state text not null,
        size integer not null,
        {_COUNTERS}
        create_time timestamptz not null,
        start_time timestamptz,
        settle_time timestamptz,
        cancel_request_time timestamptz,
        settlings integer not null default 0,
        event_count bigint not null,
        constraint batches_add_up check (waiting + running + succeeded + failed + skipped = size)
    ) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02)
    """,
    "create index if not exists batches_by_owner on batches (owner, create_time desc, batch_id desc)",
    "create index if not exists batches_by_create_time on batches (create_time desc, batch_id desc)",
    """
    create table if not exists batch_items (
        batch_id uuid not null,
        number integer not null,
        job_id uuid not null,
        selected boolean not null default false,
        primary key (batch_id, number)
    )
    """,
    f"""
    create table if not exists batch_events (
        batch_id uuid not null,
        number bigint not null,
        state text not null,
        {_COUNTERS}
        item integer not null default 0,
        item_state text,
        error_code text,
        error_message text,
        error_internal text,
        event_time timestamptz not null,
        primary key (batch_id, number)
    )
    """,
    "alter table jobs add column if not exists batch_id uuid",
    "alter table jobs add column if not exists batch_item integer",
    # Its batch was cancelled: an attempt that ends without success is its last one.
    "alter table jobs add column if not exists skipping boolean not null default false",
    "alter table idempotency_keys alter column job_id drop not null",
    "alter table idempotency_keys add column if not exists batch_id uuid",
    "alter table leases add column if not exists job_type text not null default ''",
    "alter table leases add column if not exists owner text not null default ''",
    "alter table leases add column if not exists limited boolean not null default false",
    # `{"job_type": ["1.1", "1.2"]}`, of input and output; a session of an older service tells of none.
    "alter table executor_sessions add column if not exists schema_versions jsonb not null default '{}'",
    """
    create table if not exists lease_limits (
        job_type text primary key,
        rate_spent_time timestamptz not null default '-infinity'
    )
    """,
    """
    create table if not exists pauses (
        kind text not null check (kind in ('queue', 'job_type')),
        name text not null,
        subject text not null,
        note text not null,
        pause_time timestamptz not null,
        primary key (kind, name)
    )
    """,
    """
    create table if not exists owner_days (
        owner text not null,
        day date not null,
        jobs integer not null,
        primary key (owner, day)
    ) with (fillfactor = 50)
    """,
    "create index if not exists owner_days_by_day on owner_days (day)",
    """
    create table if not exists audit_records (
        record_time timestamptz not null,
        audit_id bigint generated always as identity,
        subject text not null,
        owner text not null,
        action text not null,
        aggregate_id uuid,
        name text not null default '',
        outcome text not null,
        primary key (record_time, audit_id)
    )
    """,
    """
    create index if not exists audit_records_by_subject on audit_records (subject, record_time, audit_id)
    """,
    """
    create index if not exists audit_records_by_aggregate
        on audit_records (aggregate_id, record_time, audit_id) where aggregate_id is not null
    """,
)

_INDEXES = {
    "jobs_by_batch": "on jobs (batch_id, batch_item, job_id) where batch_id is not null",
    "leases_limited": "on leases (job_type, owner) where limited",
}


def upgrade() -> None:
    for statement in _UPGRADE:
        op.execute(statement)
    with op.get_context().autocommit_block():
        for name, where in _INDEXES.items():
            op.execute(f"drop index concurrently if exists {name}")
            op.execute(f"create index concurrently {name} {where}")


def downgrade() -> None:
    with op.get_context().autocommit_block():
        for name in _INDEXES:
            op.execute(f"drop index concurrently if exists {name}")
    op.execute(
        "drop table batches, batch_items, batch_events, lease_limits, pauses, owner_days, audit_records"
    )
    op.execute("alter table jobs drop column batch_id, drop column batch_item, drop column skipping")
    op.execute("delete from idempotency_keys where job_id is null")
    op.execute("alter table idempotency_keys drop column batch_id, alter column job_id set not null")
    op.execute("alter table leases drop column job_type, drop column owner, drop column limited")
    op.execute("alter table executor_sessions drop column schema_versions")
