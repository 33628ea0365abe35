"""Batches as they are read: one, many, or a page of them, with their items and events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from shared.domain.batches import Batch, BatchEvent, BatchItem, BatchState
from shared.domain.identity import BatchId, JobType, Owner
from shared.domain.jobs import JobState
from shared.storage.database import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFilter:
    """Which batches; what is None or empty does not restrict.

    Attributes:
        text: Held by the title, in whatever case.
    """

    owner: Owner | None = None
    states: frozenset[BatchState] = frozenset()
    job_type: JobType | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None
    target_type: str | None = None
    target_id: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class BatchPosition:
    """A place in the list, newest first; the next page begins behind it."""

    create_time: datetime
    batch_id: BatchId


class Batches:
    """Reads batches; they are written by `batch_changes`, and counted by the changes of their jobs."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def get(self, batch_id: BatchId) -> Batch | None:
        """Return a batch; None if there is none."""
        return (await self.get_many([batch_id])).get(batch_id)

    async def get_many(self, batch_ids: Sequence[BatchId]) -> Mapping[BatchId, Batch]:
        """Return those of the batches that exist."""
        raise NotImplementedError

    async def page(
        self, batch_filter: BatchFilter, *, after: BatchPosition | None, limit: int
    ) -> list[Batch]:
        """Return up to `limit` batches, newest first, from behind `after` on."""
        raise NotImplementedError

    async def items(
        self, batch_id: BatchId, *, states: frozenset[JobState], after: int, limit: int
    ) -> list[BatchItem]:
        """Return up to `limit` items with numbers above `after`, by number.

        Args:
            states: Only items whose newest job is in one of these; empty means all.
        """
        raise NotImplementedError

    async def events_after(self, seen: Mapping[BatchId, int], *, limit: int) -> list[BatchEvent]:
        """Return for each batch the events after the number that was seen, in order; at most `limit` each."""
        raise NotImplementedError
