"""Stores a document that an input can refer to."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from uuid import UUID

import structlog

from job_api.operations.caller import Caller
from shared.domain.audit import AuditAction
from shared.domain.errors import PayloadTooLarge, PlatformUnavailable
from shared.domain.identity import Owner, UploadId
from shared.storage.audit import AuditEntry
from shared.storage.transactions import Transactions

log = structlog.get_logger(__name__)

STORED_CHUNK_BYTES_MIN = 256 * 1024
"""Smaller pieces are gathered, so that a document in crumbs makes no more rows than one in loaves."""


@dataclass(frozen=True, slots=True)
class UploadCommand:
    """What a document is; the owner is None where it is the caller's."""

    media_type: str
    file_name: str
    owner: Owner | None


@dataclass(frozen=True, slots=True)
class Uploaded:
    """A document that is stored whole; the hash is SHA-256 in hex."""

    upload_id: UploadId
    document_bytes: int
    sha256: str


class UploadInput:
    """Writes chunks in transactions of their own; the last one makes the document whole.

    What is not made whole is discarded at once where that is possible, and by retention in any case.
    """

    def __init__(
        self, transactions: Transactions, *, new_id: Callable[[], UUID], document_bytes_max: int
    ) -> None:
        self._transactions = transactions
        self._new_id = new_id
        self._document_bytes_max = document_bytes_max
        self._discards = set[asyncio.Task[None]]()

    async def __call__(
        self, caller: Caller, command: UploadCommand, chunks: AsyncIterator[bytes]
    ) -> Uploaded:
        """Store a document.

        Raises:
            PayloadTooLarge: It is over its limit; nothing of it is kept.
            PermissionDenied: It is meant for another owner, and the caller may not act for others.
        """
        owner = caller.acting_for(command.owner)
        upload_id = UploadId(self._new_id())
        async with self._transactions.begin() as transaction:
            await transaction.uploads.begin(
                upload_id, owner, media_type=command.media_type, file_name=command.file_name
            )
        try:
            record = AuditEntry(caller.subject, owner, AuditAction.INPUT_UPLOAD, upload_id)
            uploaded = await self._store(upload_id, chunks, record)
        except BaseException:
            self._discard_soon(upload_id)
            raise
        log.info("upload.completed", upload_id=str(upload_id), document_bytes=uploaded.document_bytes)
        return uploaded

    async def _store(self, upload_id: UploadId, chunks: AsyncIterator[bytes], record: AuditEntry) -> Uploaded:
        digest = hashlib.sha256()
        total = number = 0
        gathered = bytearray()
        async for chunk in chunks:
            total += len(chunk)
            if total > self._document_bytes_max:
                raise PayloadTooLarge("document", self._document_bytes_max, total)
            digest.update(chunk)
            gathered += chunk
            if len(gathered) >= STORED_CHUNK_BYTES_MIN:
                number += 1
                await self._add(upload_id, number, bytes(gathered))
                gathered.clear()
        async with self._transactions.begin() as transaction:
            if gathered:
                await transaction.uploads.add_chunk(upload_id, number + 1, bytes(gathered))
            await transaction.uploads.complete(upload_id, document_bytes=total, sha256=digest.hexdigest())
            await transaction.audit.add([record])
        return Uploaded(upload_id, total, digest.hexdigest())

    async def _add(self, upload_id: UploadId, number: int, content: bytes) -> None:
        async with self._transactions.begin() as transaction:
            await transaction.uploads.add_chunk(upload_id, number, content)

    def _discard_soon(self, upload_id: UploadId) -> None:
        """Discard in a task of its own: a call that is being cancelled can't wait for anything."""
        task = asyncio.create_task(self._discard(upload_id))
        self._discards.add(task)
        task.add_done_callback(self._discards.discard)

    async def _discard(self, upload_id: UploadId) -> None:
        try:
            async with self._transactions.begin() as transaction:
                await transaction.uploads.discard(upload_id)
        except PlatformUnavailable:
            log.info("upload.left_to_retention", upload_id=str(upload_id))
