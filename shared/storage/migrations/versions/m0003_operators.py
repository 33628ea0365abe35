"""What operating needs: which jobs were run again, dead messages, executors by name, a feed of events.

Indexes of tables that may be large already are built beside the traffic, each outside of the transaction; one
that was interrupted is made anew.
"""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

# Before and after an interruption alike. Events that are there already are numbered like those that come.
_FEED = (
    "alter table outbox add column if not exists feed_number bigint",
    # One row: who holds it numbers events, and nobody else does meanwhile.
    """
    create table if not exists event_feed (
        singleton boolean primary key default true check (singleton),
        last_number bigint not null,
        removed_number bigint not null
    )
    """,
    "insert into event_feed (last_number, removed_number) values (0, 0) on conflict do nothing",
)

_INDEXES = {
    "jobs_by_origin": "on jobs (origin_job_id) where origin_job_id is not null",
    "outbox_dead": "on outbox (outbox_id) where state = 'dead'",
    "executor_sessions_by_name": "on executor_sessions (executor_name, incarnation_id)",
    "outbox_events_unnumbered": (
        "on outbox (outbox_id) where event_type <> 'job.dispatch' and feed_number is null"
    ),
    "outbox_events_by_type": "on outbox (event_type, feed_number) where feed_number is not null",
}
_UNIQUE_INDEXES = {"outbox_events_by_number": "on outbox (feed_number) where feed_number is not null"}


def upgrade() -> None:
    for statement in _FEED:
        op.execute(statement)
    with op.get_context().autocommit_block():
        for kind, indexes in (("index", _INDEXES), ("unique index", _UNIQUE_INDEXES)):
            for name, where in indexes.items():
                op.execute(f"drop index concurrently if exists {name}")
                op.execute(f"create {kind} concurrently {name} {where}")


def downgrade() -> None:
    with op.get_context().autocommit_block():
        for name in (*_INDEXES, *_UNIQUE_INDEXES):
            op.execute(f"drop index concurrently if exists {name}")
    op.execute("drop table event_feed")
    op.execute("alter table outbox drop column feed_number")
