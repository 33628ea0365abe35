"""Reads a lease's input, and the document that belongs to it, in parts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from shared.domain.errors import LeaseLost
from shared.domain.leases import LeaseRef
from shared.storage.transactions import Transactions

CHUNK_BYTES_MAX = 1024 * 1024
"""Far below what a message may have, and few enough for a document of 32 MiB."""


@dataclass(frozen=True, slots=True)
class InputChunk:
    """The next bytes of the input's JSON text."""

    content: bytes


@dataclass(frozen=True, slots=True)
class DocumentChunk:
    """The next bytes of the document."""

    content: bytes


class GetSnapshot:
    """Holds one part in memory at a time, and no transaction while a part is sent."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def __call__(self, lease: LeaseRef) -> AsyncIterator[InputChunk | DocumentChunk]:
        """Yield the input's parts, then the document's, if the job has one.

        Raises:
            LeaseLost: The token is not the job's current one; nothing was yielded.
            PlatformUnavailable: The database did not answer; asking again begins anew.
        """
        async with self._transactions.begin() as transaction:
            snapshot = await transaction.snapshots.of_lease(lease)
        if snapshot is None:
            raise LeaseLost(lease.job_id)
        for part in _parts(snapshot.input):
            yield InputChunk(part)
        number = 1
        while snapshot.upload_id is not None:
            async with self._transactions.begin() as transaction:
                chunk = await transaction.uploads.chunk(snapshot.upload_id, number)
            if chunk is None:
                return
            for part in _parts(chunk):
                yield DocumentChunk(part)
            number += 1


def _parts(content: bytes) -> list[bytes]:
    return [content[start : start + CHUNK_BYTES_MAX] for start in range(0, len(content), CHUNK_BYTES_MAX)]
