"""The indexes by which jobs and batches are listed, each built beside the traffic.

Text is searched by trigrams: `pg_trgm` comes with Postgres, and the owner of a database may create it. Where
somebody has created it already, in whatever schema, that one serves.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_EXTENSION = "create extension if not exists pg_trgm"
_ITS_SCHEMA = "select extnamespace::regnamespace::text from pg_extension where extname = 'pg_trgm'"

_UNSUCCESSFUL = "error_code is not null or cancel_request_time is not null or skipping"
_FIRST = "event_type = 'job.dispatch' and attempt = 1"
_LATER = "event_type = 'job.dispatch' and attempt > 1"

# What waits to be merged into an index of content is bounded: searching reads all of it, and whoever fills it
# merges it.
_PENDING = "with (gin_pending_list_limit = 1024)"

_INDEXES = {
    "jobs_by_type": "on jobs (job_type, create_time desc, job_id desc, owner)",
    "jobs_by_queue": "on jobs (queue, create_time desc, job_id desc, owner)",
    "jobs_by_target_type": (
        "on jobs (target_type, create_time desc, job_id desc, owner) where target_type is not null"
    ),
    "jobs_by_target": (
        "on jobs (target_type, target_id, create_time desc, job_id desc) where target_type is not null"
    ),
    "jobs_unsuccessful": f"on jobs (create_time desc, job_id desc, owner) where {_UNSUCCESSFUL}",
    "jobs_by_labels": f"on jobs using gin (labels jsonb_path_ops) {_PENDING} where labels <> '{{}}'",
    **{
        f"jobs_by_{column}_text": (
            f"on jobs using gin ({column} {{trigrams}}) {_PENDING} where {column} is not null"
        )
        for column in ("target_id", "error_code", "error_message")
    },
    "outbox_first_by_owner": f"on outbox (owner, create_time desc, aggregate_id desc) where {_FIRST}",
    "outbox_first_by_time": f"on outbox (create_time desc, aggregate_id desc) where {_FIRST}",
    "outbox_later": f"on outbox (owner) where {_LATER}",
    "batches_by_state": "on batches (state, create_time desc, batch_id desc, owner)",
    "batches_by_type": "on batches (job_type, create_time desc, batch_id desc, owner)",
    "batches_by_target": (
        "on batches (target_type, target_id, create_time desc, batch_id desc) where target_type is not null"
    ),
    "batches_by_title": f"on batches using gin (title {{trigrams}}) {_PENDING}",
}


def upgrade() -> None:
    op.execute(_EXTENSION)
    trigrams = f"{op.get_bind().scalar(sa.text(_ITS_SCHEMA))}.gin_trgm_ops"
    with op.get_context().autocommit_block():
        for name, where in _INDEXES.items():
            op.execute(f"drop index concurrently if exists {name}")
            op.execute(f"create index concurrently {name} {where.replace('{trigrams}', trigrams)}")


def downgrade() -> None:
    """Take the indexes away; the extension stays, for it may not be ours alone."""
    with op.get_context().autocommit_block():
        for name in _INDEXES:
            op.execute(f"drop index concurrently if exists {name}")
