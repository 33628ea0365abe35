"""What is stored of batches; their items are jobs."""

from __future__ import annotations

import sqlalchemy as sa

from shared.storage import list_indexes
from shared.storage.table_parts import BIG, FLAG, ID, JSON, METADATA, NUMBER, TEXT, TIME, held, key, maybe

COUNTERS = ("waiting", "running", "succeeded", "failed", "skipped")

batches = sa.Table(
    "batches",
    METADATA,
    key("batch_id", ID),
    held("owner", TEXT),
    held("created_by", TEXT),
    held("job_type", TEXT),
    held("title", TEXT),
    maybe("target_type", TEXT),
    maybe("target_id", TEXT),
    held("labels", JSON),
    held("state", TEXT),
    held("size", NUMBER),
    *(held(name, NUMBER) for name in COUNTERS),
    held("create_time", TIME),
    maybe("start_time", TIME),
    maybe("settle_time", TIME),
    maybe("cancel_request_time", TIME),
    held("settlings", NUMBER),
    held("event_count", BIG),
    *list_indexes.OF_BATCHES,
)

batch_items = sa.Table(
    "batch_items",
    METADATA,
    key("batch_id", ID),
    key("number", NUMBER),
    held("job_id", ID),
    held("selected", FLAG),
)

batch_events = sa.Table(
    "batch_events",
    METADATA,
    key("batch_id", ID),
    key("number", BIG),
    held("state", TEXT),
    *(held(name, NUMBER) for name in COUNTERS),
    held("item", NUMBER),
    maybe("item_state", TEXT),
    maybe("error_code", TEXT),
    maybe("error_message", TEXT),
    maybe("error_internal", TEXT),
    held("event_time", TIME),
)
