"""What operating needs: which jobs were run again, which messages are dead, executors by name.

Indexes of tables that may be large already are built beside the traffic, each outside of the transaction; one
that was interrupted is made anew.
"""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_INDEXES = {
    "jobs_by_origin": "on jobs (origin_job_id) where origin_job_id is not null",
    "outbox_dead": "on outbox (outbox_id) where state = 'dead'",
    "executor_sessions_by_name": "on executor_sessions (executor_name, incarnation_id)",
}


def upgrade() -> None:
    with op.get_context().autocommit_block():
        for name, where in _INDEXES.items():
            op.execute(f"drop index concurrently if exists {name}")
            op.execute(f"create index concurrently {name} {where}")


def downgrade() -> None:
    with op.get_context().autocommit_block():
        for name in _INDEXES:
            op.execute(f"drop index concurrently if exists {name}")
