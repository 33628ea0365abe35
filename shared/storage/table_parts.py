"""What the declarations of tables are written with."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import BYTEA, JSONB, TIMESTAMP, UUID

METADATA = sa.MetaData()

ID, TEXT, NUMBER, SMALL, BIG, FLAG = (
    UUID(as_uuid=True),
    sa.Text(),
    sa.Integer(),
    sa.SmallInteger(),
    sa.BigInteger(),
    sa.Boolean(),
)
TIME, BYTES, JSON = TIMESTAMP(timezone=True), BYTEA(), JSONB()


def key(name: str, kind: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, primary_key=True)


def held(name: str, kind: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False)


def maybe(name: str, kind: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=True)
