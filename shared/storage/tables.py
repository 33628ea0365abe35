"""What is stored. The migrations make these tables; a test holds the two together.

Statements on hot paths are SQL text over the same names; everything else is built from these.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA, JSONB, TIMESTAMP, UUID

METADATA = sa.MetaData()


def _key(name: str, kind: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, primary_key=True)


def _held(name: str, kind: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False)


def _maybe(name: str, kind: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=True)


_ID, _TEXT, _NUMBER, _SMALL, _BIG, _FLAG = (
    UUID(as_uuid=True),
    sa.Text(),
    sa.Integer(),
    sa.SmallInteger(),
    sa.BigInteger(),
    sa.Boolean(),
)
_TIME, _BYTES, _JSON = TIMESTAMP(timezone=True), BYTEA(), JSONB()

jobs = sa.Table(
    "jobs",
    METADATA,
    _key("job_id", _ID),
    _held("owner", _TEXT),
    _held("created_by", _TEXT),
    _held("job_type", _TEXT),
    _held("queue", _TEXT),
    _held("stream", _TEXT),
    _held("priority", _SMALL),
    _held("state", _TEXT),
    _maybe("target_type", _TEXT),
    _maybe("target_id", _TEXT),
    _held("labels", _JSON),
    _held("input_schema_version", _NUMBER),
    _held("output_schema_version", _NUMBER),
    _held("credential_mode", _TEXT),
    _held("credential_id", _TEXT),
    _held("prompt_version", _TEXT),
    _held("traceparent", _TEXT),
    _maybe("origin_job_id", _ID),
    _held("create_time", _TIME),
    _maybe("start_by_time", _TIME),
    _maybe("start_time", _TIME),
    _maybe("finish_time", _TIME),
    _maybe("next_attempt_time", _TIME),
    _held("attempt", _NUMBER),
    _held("failures", _NUMBER),
    _held("internal_failures", _NUMBER),
    _held("losses", _NUMBER),
    _held("give_backs", _NUMBER),
    _held("run_alone", _FLAG),
    _held("refused_by", ARRAY(_ID)),
    _held("progress", _SMALL),
    _held("progress_message", _TEXT),
    _maybe("cancel_request_time", _TIME),
    _maybe("cancel_seen_time", _TIME),
    _held("cancel_forced", _FLAG),
    _maybe("error_code", _TEXT),
    _maybe("error_message", _TEXT),
    _maybe("error_internal", _TEXT),
    _held("output_hash", _TEXT),
    _held("artifact_count", _NUMBER),
    _held("event_count", _BIG),
    sa.Index("jobs_by_owner", "owner", sa.text("create_time desc"), sa.text("job_id desc")),
    sa.Index("jobs_by_create_time", sa.text("create_time desc"), sa.text("job_id desc")),
    sa.Index("jobs_by_origin", "origin_job_id", postgresql_where=sa.text("origin_job_id is not null")),
)

snapshots = sa.Table(
    "snapshots",
    METADATA,
    _key("job_id", _ID),
    _held("input", _BYTES),
    _maybe("upload_id", _ID),
    _held("redaction_version", _SMALL),
    _maybe("expire_time", _TIME),
    sa.Index("snapshots_by_expire_time", "expire_time", postgresql_where=sa.text("expire_time is not null")),
    sa.Index("snapshots_by_upload", "upload_id", postgresql_where=sa.text("upload_id is not null")),
)

uploads = sa.Table(
    "uploads",
    METADATA,
    _key("upload_id", _ID),
    _held("owner", _TEXT),
    _held("media_type", _TEXT),
    _held("file_name", _TEXT),
    _held("document_bytes", _BIG),
    _held("sha256", _TEXT),
    _held("create_time", _TIME),
    _held("complete", _FLAG),
    sa.Index("uploads_by_create_time", "create_time"),
)

upload_chunks = sa.Table(
    "upload_chunks",
    METADATA,
    sa.Column("upload_id", _ID, sa.ForeignKey("uploads.upload_id", ondelete="CASCADE"), primary_key=True),
    _key("number", _NUMBER),
    _held("content", _BYTES),
)

idempotency_keys = sa.Table(
    "idempotency_keys",
    METADATA,
    _key("owner", _TEXT),
    _key("job_type", _TEXT),
    _key("key", _TEXT),
    _held("fingerprint", _BYTES),
    _held("job_id", _ID),
    _held("expire_time", _TIME),
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
    sa.Column("outbox_id", _BIG, sa.Identity(always=True), primary_key=True),
    _held("event_type", _TEXT),
    _held("aggregate_type", _TEXT),
    _held("aggregate_id", _ID),
    sa.Column("dedupe_key", _TEXT, nullable=False, unique=True),
    _held("payload", _JSON),
    _held("state", _TEXT),
    _held("tries", _SMALL),
    _held("create_time", _TIME),
    _held("available_time", _TIME),
    _maybe("delivered_time", _TIME),
    _held("last_error_code", _TEXT),
    _held("last_error_message", _TEXT),
    _maybe("stream", _TEXT),
    _maybe("owner", _TEXT),
    _maybe("priority", _SMALL),
    _maybe("attempt", _NUMBER),
    _maybe("start_by_time", _TIME),
    _maybe("feed_number", _BIG),
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
)

event_feed = sa.Table(
    "event_feed",
    METADATA,
    _key("singleton", _FLAG),
    _held("last_number", _BIG),
    _held("removed_number", _BIG),
)

executor_sessions = sa.Table(
    "executor_sessions",
    METADATA,
    _key("incarnation_id", _ID),
    _held("session_id", _ID),
    _held("executor_name", _TEXT),
    _held("runtime", _TEXT),
    _held("job_types", ARRAY(_TEXT)),
    _held("hello_time", _TIME),
    sa.Index("executor_sessions_by_name", "executor_name", "incarnation_id"),
)

leases = sa.Table(
    "leases",
    METADATA,
    _key("job_id", _ID),
    _held("attempt", _NUMBER),
    _held("token", _TEXT),
    _held("session_id", _ID),
    _held("incarnation_id", _ID),
    _held("executor_name", _TEXT),
    _held("accepted", _FLAG),
    _held("grant_time", _TIME),
    _held("heartbeat_time", _TIME),
    _held("deadline_time", _TIME),
    _held("reprieve_time", _TIME),
    _held("lease_seconds", sa.Double()),
    _held("grace_seconds", sa.Double()),
    _held("progress", _SMALL),
    _held("progress_message", _TEXT),
    sa.Index("leases_by_incarnation", "incarnation_id"),
)

attempts = sa.Table(
    "attempts",
    METADATA,
    _key("job_id", _ID),
    _key("attempt", _NUMBER),
    _held("token", _TEXT),
    _held("incarnation_id", _ID),
    _held("executor_name", _TEXT),
    _held("start_time", _TIME),
    _held("end_time", _TIME),
    _held("outcome", _TEXT),
    _maybe("error_code", _TEXT),
    _maybe("error_message", _TEXT),
    _maybe("error_internal", _TEXT),
    _held("suspect", _FLAG),
    _held("report_hash", _TEXT),
    _held("answer", _TEXT),
    _maybe("output", _BYTES),
)

job_events = sa.Table(
    "job_events",
    METADATA,
    _key("job_id", _ID),
    _key("number", _BIG),
    _held("kind", _TEXT),
    _held("state", _TEXT),
    _held("attempt", _NUMBER),
    _held("event_time", _TIME),
    _maybe("outcome", _TEXT),
    _maybe("error_code", _TEXT),
    _maybe("error_message", _TEXT),
    _maybe("error_internal", _TEXT),
    _maybe("next_attempt_time", _TIME),
    _held("forced", _FLAG),
)

artifacts = sa.Table(
    "artifacts",
    METADATA,
    _key("job_id", _ID),
    _key("artifact_type", _TEXT),
    _key("artifact_id", _TEXT),
    _held("ordinal", _NUMBER),
    _maybe("content", _BYTES),
    sa.Index("artifacts_by_ordinal", "job_id", "ordinal", unique=True),
)

output_pieces = sa.Table(
    "output_pieces",
    METADATA,
    _key("job_id", _ID),
    _key("attempt", _NUMBER),
    _key("number", _NUMBER),
    _held("content", _TEXT),
)

pulse = sa.Table("pulse", METADATA, _key("singleton", _FLAG), _held("pulse_time", _TIME))

knowledge_items = sa.Table(
    "knowledge_items",
    METADATA,
    _key("job_id", _ID),
    _key("ordinal", _NUMBER),
    _held("owner", _TEXT),
    _held("heading_path", ARRAY(_TEXT)),
    _held("content", _TEXT),
    _held("characters", _NUMBER),
    _held("sha256", _TEXT),
    _maybe("page", _NUMBER),
)

synthetic_results = sa.Table(
    "synthetic_results", METADATA, _key("job_id", _ID), _held("items", _NUMBER), _held("attempt", _NUMBER)
)
