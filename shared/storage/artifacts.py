"""What jobs made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from shared.domain.identity import JobId
from shared.domain.jobs import Artifact
from shared.storage import tables
from shared.storage.database import Connection
from shared.storage.rows import columns, unnested

_COLUMNS = {
    "job_id": "uuid",
    "artifact_type": "text",
    "artifact_id": "text",
    "ordinal": "integer",
    "content": "bytea",
}
_ADD = sa.text(f"""
insert into artifacts (job_id, artifact_type, artifact_id, ordinal, content)
select * from {unnested(_COLUMNS, "a")}
""")


class Artifacts:
    """One row an artifact; (job, type, id) is unique."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def add(self, made: Mapping[JobId, Sequence[Artifact]]) -> None:
        """Store the artifacts of jobs that succeed in this transaction."""
        rows = [
            {
                "job_id": job_id,
                "artifact_type": each.type,
                "artifact_id": each.id,
                "ordinal": each.ordinal,
                "content": each.content or None,
            }
            for job_id, artifacts in made.items()
            for each in artifacts
        ]
        if rows:
            await self._connection.execute(_ADD, columns(rows, _COLUMNS))

    async def page(self, job_id: JobId, *, after: int, limit: int, include_content: bool) -> list[Artifact]:
        """Return a job's artifacts with ordinals above `after`, in order."""
        table = tables.artifacts
        content = table.c.content if include_content else sa.null().label("content")
        statement = (
            sa.select(table.c.artifact_type, table.c.artifact_id, table.c.ordinal, content)
            .where(table.c.job_id == job_id, table.c.ordinal > after)
            .order_by(table.c.ordinal)
            .limit(limit)
        )
        rows = await self._connection.execute(statement)
        return [Artifact(row.artifact_type, row.artifact_id, row.ordinal, row.content or b"") for row in rows]
