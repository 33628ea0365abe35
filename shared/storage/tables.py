"""What is stored. The migrations make these tables; a test holds the two together.

Statements on hot paths are SQL text over the same names; everything else is built from these.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from shared.storage import list_indexes
from shared.storage.batch_tables import batch_events, batch_items, batches
from shared.storage.control_tables import audit_records, lease_limits, owner_days, pauses
from shared.storage.projected_tables import knowledge_items, synthetic_results
from shared.storage.table_parts import (
    BIG,
    BYTES,
    FLAG,
    ID,
    JSON,
    METADATA,
    NUMBER,
    SMALL,
    TEXT,
    TIME,
    held,
    key,
    maybe,
)

__all__ = [
    "METADATA",
    "audit_records",
    "batch_events",
    "batch_items",
    "batches",
    "knowledge_items",
    "lease_limits",
    "owner_days",
    "pauses",
    "synthetic_results",
]

jobs = sa.Table(
    "jobs",
    METADATA,
    key("job_id", ID),
    held("owner", TEXT),
    held("created_by", TEXT),
    held("job_type", TEXT),
    held("queue", TEXT),
    held("stream", TEXT),
    held("priority", SMALL),
    held("state", TEXT),
    maybe("target_type", TEXT),
    maybe("target_id", TEXT),
    held("labels", JSON),
    held("input_schema_version", NUMBER),
    held("output_schema_version", NUMBER),
    held("credential_mode", TEXT),
    held("credential_id", TEXT),
    held("prompt_version", TEXT),
    held("traceparent", TEXT),
    maybe("origin_job_id", ID),
    maybe("batch_id", ID),
    maybe("batch_item", NUMBER),
    held("skipping", FLAG),
    held("create_time", TIME),
    maybe("start_by_time", TIME),
    maybe("start_time", TIME),
    maybe("finish_time", TIME),
    maybe("next_attempt_time", TIME),
    held("attempt", NUMBER),
    held("failures", NUMBER),
    held("internal_failures", NUMBER),
    held("losses", NUMBER),
    held("give_backs", NUMBER),
    held("run_alone", FLAG),
    held("refused_by", ARRAY(ID)),
    held("progress", SMALL),
    held("progress_message", TEXT),
    maybe("cancel_request_time", TIME),
    maybe("cancel_seen_time", TIME),
    held("cancel_forced", FLAG),
    maybe("error_code", TEXT),
    maybe("error_message", TEXT),
    maybe("error_internal", TEXT),
    held("output_hash", TEXT),
    held("artifact_count", NUMBER),
    held("event_count", BIG),
    sa.Index("jobs_by_origin", "origin_job_id", postgresql_where=sa.text("origin_job_id is not null")),
    *list_indexes.OF_JOBS,
)

snapshots = sa.Table(
    "snapshots",
    METADATA,
    key("job_id", ID),
    held("input", BYTES),
    maybe("upload_id", ID),
    held("redaction_version", SMALL),
    maybe("expire_time", TIME),
    sa.Index("snapshots_by_expire_time", "expire_time", postgresql_where=sa.text("expire_time is not null")),
    sa.Index("snapshots_by_upload", "upload_id", postgresql_where=sa.text("upload_id is not null")),
)

uploads = sa.Table(
    "uploads",
    METADATA,
    key("upload_id", ID),
    held("owner", TEXT),
    held("media_type", TEXT),
    held("file_name", TEXT),
    held("document_bytes", BIG),
    held("sha256", TEXT),
    held("create_time", TIME),
    held("complete", FLAG),
    sa.Index("uploads_by_create_time", "create_time"),
)

upload_chunks = sa.Table(
    "upload_chunks",
    METADATA,
    sa.Column("upload_id", ID, sa.ForeignKey("uploads.upload_id", ondelete="CASCADE"), primary_key=True),
    key("number", NUMBER),
    held("content", BYTES),
)

idempotency_keys = sa.Table(
    "idempotency_keys",
    METADATA,
    key("owner", TEXT),
    key("job_type", TEXT),
    key("key", TEXT),
    held("fingerprint", BYTES),
    maybe("job_id", ID),
    maybe("batch_id", ID),
    held("expire_time", TIME),
    sa.Index("idempotency_keys_by_expire_time", "expire_time"),
)

_DISPATCH_PENDING = sa.text("event_type = 'job.dispatch' and state = 'pending'")
_DISPATCH_DELIVERED = sa.text("event_type = 'job.dispatch' and state = 'delivered'")
_EVENT_PENDING = sa.text("event_type <> 'job.dispatch' and state = 'pending'")
_EVENT_UNNUMBERED = sa.text("event_type <> 'job.dispatch' and feed_number is null")
_NUMBERED = sa.text("feed_number is not null")

outbox = sa.Table(
    "outbox",
    METADATA,
    sa.Column("outbox_id", BIG, sa.Identity(always=True), primary_key=True),
    held("event_type", TEXT),
    held("aggregate_type", TEXT),
    held("aggregate_id", ID),
    sa.Column("dedupe_key", TEXT, nullable=False, unique=True),
    held("payload", JSON),
    held("state", TEXT),
    held("tries", SMALL),
    held("create_time", TIME),
    held("available_time", TIME),
    maybe("delivered_time", TIME),
    held("last_error_code", TEXT),
    held("last_error_message", TEXT),
    maybe("stream", TEXT),
    maybe("owner", TEXT),
    maybe("priority", SMALL),
    maybe("attempt", NUMBER),
    maybe("start_by_time", TIME),
    maybe("feed_number", BIG),
    sa.Index(
        "outbox_dispatches_pending",
        "stream",
        "owner",
        "priority",
        "available_time",
        "outbox_id",
        postgresql_where=_DISPATCH_PENDING,
    ),
    sa.Index("outbox_dispatches_delivered", "stream", "delivered_time", postgresql_where=_DISPATCH_DELIVERED),
    sa.Index("outbox_events_pending", "outbox_id", postgresql_where=_EVENT_PENDING),
    sa.Index("outbox_events_unnumbered", "outbox_id", postgresql_where=_EVENT_UNNUMBERED),
    sa.Index("outbox_events_by_number", "feed_number", unique=True, postgresql_where=_NUMBERED),
    sa.Index("outbox_events_by_type", "event_type", "feed_number", postgresql_where=_NUMBERED),
    sa.Index("outbox_dead", "outbox_id", postgresql_where=sa.text("state = 'dead'")),
    sa.Index(
        "outbox_dispatches_by_start_by",
        "start_by_time",
        postgresql_where=sa.text("start_by_time is not null"),
    ),
    *list_indexes.OF_OUTBOX,
)

event_feed = sa.Table(
    "event_feed",
    METADATA,
    key("singleton", FLAG),
    held("last_number", BIG),
    held("removed_number", BIG),
)

executor_sessions = sa.Table(
    "executor_sessions",
    METADATA,
    key("incarnation_id", ID),
    held("session_id", ID),
    held("executor_name", TEXT),
    held("runtime", TEXT),
    held("job_types", ARRAY(TEXT)),
    held("schema_versions", JSON),
    held("hello_time", TIME),
    sa.Index("executor_sessions_by_name", "executor_name", "incarnation_id"),
)

leases = sa.Table(
    "leases",
    METADATA,
    key("job_id", ID),
    held("job_type", TEXT),
    held("owner", TEXT),
    held("limited", FLAG),
    held("attempt", NUMBER),
    held("token", TEXT),
    held("session_id", ID),
    held("incarnation_id", ID),
    held("executor_name", TEXT),
    held("accepted", FLAG),
    held("grant_time", TIME),
    held("heartbeat_time", TIME),
    held("deadline_time", TIME),
    held("reprieve_time", TIME),
    held("lease_seconds", sa.Double()),
    held("grace_seconds", sa.Double()),
    held("progress", SMALL),
    held("progress_message", TEXT),
    sa.Index("leases_by_incarnation", "incarnation_id"),
    sa.Index("leases_limited", "job_type", "owner", postgresql_where=sa.text("limited")),
)

attempts = sa.Table(
    "attempts",
    METADATA,
    key("job_id", ID),
    key("attempt", NUMBER),
    held("token", TEXT),
    held("incarnation_id", ID),
    held("executor_name", TEXT),
    held("start_time", TIME),
    held("end_time", TIME),
    held("outcome", TEXT),
    maybe("error_code", TEXT),
    maybe("error_message", TEXT),
    maybe("error_internal", TEXT),
    held("suspect", FLAG),
    held("report_hash", TEXT),
    held("answer", TEXT),
    maybe("output", BYTES),
)

job_events = sa.Table(
    "job_events",
    METADATA,
    key("job_id", ID),
    key("number", BIG),
    held("kind", TEXT),
    held("state", TEXT),
    held("attempt", NUMBER),
    held("event_time", TIME),
    maybe("outcome", TEXT),
    maybe("error_code", TEXT),
    maybe("error_message", TEXT),
    maybe("error_internal", TEXT),
    maybe("next_attempt_time", TIME),
    held("forced", FLAG),
)

artifacts = sa.Table(
    "artifacts",
    METADATA,
    key("job_id", ID),
    key("artifact_type", TEXT),
    key("artifact_id", TEXT),
    held("ordinal", NUMBER),
    maybe("content", BYTES),
    sa.Index("artifacts_by_ordinal", "job_id", "ordinal", unique=True),
)

output_pieces = sa.Table(
    "output_pieces",
    METADATA,
    key("job_id", ID),
    key("attempt", NUMBER),
    key("number", NUMBER),
    held("content", TEXT),
)

pulse = sa.Table("pulse", METADATA, key("singleton", FLAG), held("pulse_time", TIME))
