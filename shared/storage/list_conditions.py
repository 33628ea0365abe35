"""Conditions that lists have in common."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import sqlalchemy as sa

_SPECIAL, _ESCAPED = re.compile(r"[\\%_]"), r"\\\g<0>"

Condition = sa.ColumnElement[bool]


def holds(column: sa.ColumnElement[str], text: str) -> Condition:
    """Say that a text is part of a column, in whatever case."""
    return column.ilike(f"%{re.sub(_SPECIAL, _ESCAPED, text)}%")


def between(
    column: sa.ColumnElement[datetime], start: datetime | None, end: datetime | None
) -> Iterator[Condition]:
    """Say that a time is at `start` or later, and before `end`; None is no bound."""
    if start is not None:
        yield column >= start
    if end is not None:
        yield column < end


def behind(
    time: sa.ColumnElement[datetime], key: sa.ColumnElement[Any], place: tuple[datetime, Any]
) -> Condition:
    """Say that a row comes behind a place, which is a time and a key, where the newest come first."""
    return sa.tuple_(time, key) < sa.tuple_(
        *(sa.literal(value, column.type) for value, column in zip(place, (time, key), strict=True))
    )
