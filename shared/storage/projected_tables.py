"""What the projectors that ship write."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from shared.storage.table_parts import ID, METADATA, NUMBER, TEXT, held, key, maybe

knowledge_items = sa.Table(
    "knowledge_items",
    METADATA,
    key("job_id", ID),
    key("ordinal", NUMBER),
    held("owner", TEXT),
    held("heading_path", ARRAY(TEXT)),
    held("content", TEXT),
    held("characters", NUMBER),
    held("sha256", TEXT),
    maybe("page", NUMBER),
)

synthetic_results = sa.Table(
    "synthetic_results", METADATA, key("job_id", ID), held("items", NUMBER), held("attempt", NUMBER)
)
