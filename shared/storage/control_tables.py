"""What is stored of limits, pauses, and what callers have done."""

from __future__ import annotations

import sqlalchemy as sa

from shared.storage.table_parts import BIG, ID, METADATA, NUMBER, TEXT, TIME, held, key, maybe

# A row for each job type with a limit: claims of the type hold it while they count.
lease_limits = sa.Table("lease_limits", METADATA, key("job_type", TEXT), held("rate_spent_time", TIME))

pauses = sa.Table(
    "pauses",
    METADATA,
    key("kind", TEXT),
    key("name", TEXT),
    held("subject", TEXT),
    held("note", TEXT),
    held("pause_time", TIME),
)

owner_days = sa.Table(
    "owner_days",
    METADATA,
    key("owner", TEXT),
    key("day", sa.Date()),
    held("jobs", NUMBER),
    sa.Index("owner_days_by_day", "day"),
)

# In the order in which they are read; the number tells those of one moment apart.
audit_records = sa.Table(
    "audit_records",
    METADATA,
    key("record_time", TIME),
    sa.Column("audit_id", BIG, sa.Identity(always=True), primary_key=True),
    held("subject", TEXT),
    held("owner", TEXT),
    held("action", TEXT),
    maybe("aggregate_id", ID),
    held("name", TEXT),
    held("outcome", TEXT),
    sa.Index("audit_records_by_subject", "subject", "record_time", "audit_id"),
    sa.Index(
        "audit_records_by_aggregate",
        "aggregate_id",
        "record_time",
        "audit_id",
        postgresql_where=sa.text("aggregate_id is not null"),
    ),
)
