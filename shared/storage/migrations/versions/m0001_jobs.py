"""Jobs, their inputs, and the keys that stand for them.

Tables on the hot path have no foreign keys: each costs a look-up and a lock for every row, and one module
writes these rows together in one transaction. Columns that state changes touch are in no index, so these
updates stay on their page (fillfactor leaves them room).
"""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_UPGRADE = (
    # The one source of time for every decision. Tests replace it to move time.
    """
    create function engine_time() returns timestamptz
        language sql volatile as $$ select clock_timestamp() $$
    """,
    """
    create table jobs (
        job_id uuid primary key,
        owner text not null,
        created_by text not null,
        job_type text not null,
        queue text not null,
        stream text not null,
        priority smallint not null check (priority between 0 and 100),
        state text not null default 'QUEUED'
            check (state in ('QUEUED', 'RUNNING', 'SUCCEEDED', 'FAILED', 'CANCELLED')),
        target_type text,
        target_id text,
        labels jsonb not null default '{}',
        input_schema_version integer not null,
        output_schema_version integer not null,
        credential_mode text not null,
        credential_id text not null default '',
        prompt_version text not null default '',
        traceparent text not null default '',
        origin_job_id uuid,
        create_time timestamptz not null,
        start_by_time timestamptz,
        start_time timestamptz,
        finish_time timestamptz,
        next_attempt_time timestamptz,
        attempt integer not null default 0,
        failures integer not null default 0,
        internal_failures integer not null default 0,
        losses integer not null default 0,
        give_backs integer not null default 0,
        run_alone boolean not null default false,
        refused_by uuid[] not null default '{}',
        progress smallint not null default 0,
        progress_message text not null default '',
        cancel_request_time timestamptz,
        cancel_seen_time timestamptz,
        cancel_forced boolean not null default false,
        error_code text,
        error_message text,
        error_internal text,
        output_hash text not null default '',
        artifact_count integer not null default 0,
        event_count bigint not null
    ) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02)
    """,
    "create index jobs_by_owner on jobs (owner, create_time desc, job_id desc)",
    "create index jobs_by_create_time on jobs (create_time desc, job_id desc)",
    """
    create function refuse_illegal_transition() returns trigger language plpgsql as $$
    begin
        raise exception 'job % may not go from % to %', new.job_id,
            case tg_op when 'INSERT' then 'nothing' else old.state end, new.state
            using errcode = 'BT001';
    end $$
    """,
    """
    create trigger jobs_begin_queued before insert on jobs for each row
        when (new.state <> 'QUEUED') execute function refuse_illegal_transition()
    """,
    """
    create trigger jobs_transition before update of state on jobs for each row
        when (old.state <> new.state and (old.state, new.state) not in (
            ('QUEUED', 'RUNNING'), ('QUEUED', 'CANCELLED'),
            ('RUNNING', 'SUCCEEDED'), ('RUNNING', 'FAILED'), ('RUNNING', 'CANCELLED')))
        execute function refuse_illegal_transition()
    """,
    """
    create table snapshots (
        job_id uuid primary key,
        input bytea not null,
        upload_id uuid,
        redaction_version smallint not null default 0,
        expire_time timestamptz
    )
    """,
    "create index snapshots_by_expire_time on snapshots (expire_time) where expire_time is not null",
    "create index snapshots_by_upload on snapshots (upload_id) where upload_id is not null",
    """
    create table uploads (
        upload_id uuid primary key,
        owner text not null,
        media_type text not null,
        file_name text not null,
        document_bytes bigint not null default 0,
        sha256 text not null default '',
        create_time timestamptz not null,
        complete boolean not null default false
    )
    """,
    "create index uploads_by_create_time on uploads (create_time)",
    """
    create table upload_chunks (
        upload_id uuid not null references uploads on delete cascade,
        number integer not null,
        content bytea not null,
        primary key (upload_id, number)
    )
    """,
    """
    create table idempotency_keys (
        owner text not null,
        job_type text not null,
        key text not null,
        fingerprint bytea not null,
        job_id uuid not null,
        expire_time timestamptz not null,
        primary key (owner, job_type, key)
    )
    """,
    "create index idempotency_keys_by_expire_time on idempotency_keys (expire_time)",
)


def upgrade() -> None:
    for statement in _UPGRADE:
        op.execute(statement)


def downgrade() -> None:
    op.execute("drop table idempotency_keys, upload_chunks, uploads, snapshots, jobs")
    op.execute("drop function refuse_illegal_transition")
    op.execute("drop function engine_time")
