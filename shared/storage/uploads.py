"""Uploaded documents, in chunks, so that no process ever holds a whole one."""

from __future__ import annotations

import sqlalchemy as sa

from shared.domain.identity import Owner, UploadId
from shared.storage import tables
from shared.storage.database import Connection

_UPLOADS, _CHUNKS = tables.uploads, tables.upload_chunks


class Uploads:
    """A document can be referred to once it is complete."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def begin(self, upload_id: UploadId, owner: Owner, *, media_type: str, file_name: str) -> None:
        """Make room for a document; its chunks follow in transactions of their own."""
        values = {
            "upload_id": upload_id,
            "owner": owner,
            "media_type": media_type,
            "file_name": file_name,
            "document_bytes": 0,
            "sha256": "",
            "create_time": sa.func.engine_time(),
            "complete": False,
        }
        await self._connection.execute(sa.insert(_UPLOADS).values(values))

    async def add_chunk(self, upload_id: UploadId, number: int, content: bytes) -> None:
        """Store a chunk; numbers are 1, 2, 3 and so on."""
        values = {"upload_id": upload_id, "number": number, "content": content}
        await self._connection.execute(sa.insert(_CHUNKS).values(values))

    async def complete(self, upload_id: UploadId, *, document_bytes: int, sha256: str) -> None:
        """Make a document ready to be referred to."""
        statement = (
            sa.update(_UPLOADS)
            .where(_UPLOADS.c.upload_id == upload_id)
            .values(document_bytes=document_bytes, sha256=sha256, complete=True)
        )
        await self._connection.execute(statement)

    async def discard(self, upload_id: UploadId) -> None:
        """Remove a document with its chunks; nothing happens if there is none."""
        await self._connection.execute(sa.delete(_UPLOADS).where(_UPLOADS.c.upload_id == upload_id))

    async def lock_complete(self, owner: Owner, upload_ids: frozenset[UploadId]) -> frozenset[UploadId]:
        """Return those of the documents that this owner has uploaded whole, and keep them from removal."""
        if not upload_ids:
            return frozenset()
        statement = (
            sa.select(_UPLOADS.c.upload_id)
            .where(_UPLOADS.c.upload_id.in_(upload_ids), _UPLOADS.c.owner == owner, _UPLOADS.c.complete)
            .order_by(_UPLOADS.c.upload_id)
            .with_for_update(key_share=True, read=True)
        )
        return frozenset(row.upload_id for row in await self._connection.execute(statement))

    async def chunk(self, upload_id: UploadId, number: int) -> bytes | None:
        """Return a chunk; None behind the last one."""
        statement = sa.select(_CHUNKS.c.content).where(
            _CHUNKS.c.upload_id == upload_id, _CHUNKS.c.number == number
        )
        content: bytes | None = (await self._connection.execute(statement)).scalar()
        return content
