"""What a statement would read of the database, told by the database."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import asyncpg
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import asyncpg as dialect

from shared.storage import database

_EXPLAIN = "explain (analyze, buffers, format json) "


@dataclass(frozen=True, slots=True)
class Explained:
    """A statement that was run.

    Attributes:
        buffers: Pages that it looked at, each time that it did.
    """

    indexes: frozenset[str]
    whole_tables: frozenset[str]
    buffers: int
    rows: int


async def connect(database_url: str) -> asyncpg.Connection:
    """Connect as the engine does."""
    return await asyncpg.connect(database_url, ssl=False, server_settings=database._SERVER_SETTINGS)


async def explained(connection: asyncpg.Connection, statement: sa.Select[Any] | sa.TextClause) -> Explained:
    """Run a statement with the values in it, and return what it read."""
    compiled = statement.compile(
        dialect=dialect.dialect(),  # type: ignore[no-untyped-call]
        compile_kwargs={"render_postcompile": True},
    )
    names = compiled.positiontup or ()
    values = [compiled.params[name] for name in names]
    arguments = [json.dumps(each) if isinstance(each, dict) else each for each in values]
    told = json.loads(await connection.fetchval(_EXPLAIN + str(compiled), *arguments))[0]["Plan"]
    nodes = list(_nodes(told))
    return Explained(
        indexes=frozenset(node["Index Name"] for node in nodes if "Index Name" in node),
        whole_tables=frozenset(node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"),
        buffers=told["Shared Hit Blocks"] + told["Shared Read Blocks"],
        rows=told["Actual Rows"],
    )


def _nodes(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield node
    for each in node.get("Plans", []):
        yield from _nodes(each)
