"""What callers see of batches: frozen values, with a JSON form for scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from job_api.client.json_form import as_json
from job_api.client.views import JobView
from shared.domain.batches import OPEN_STATES, BatchCounters, BatchEvent, BatchState
from shared.domain.identity import BatchId, JobId, JobType, Owner
from shared.domain.jobs import Target


@dataclass(frozen=True, slots=True)
class BatchItemView:
    """One item of a batch.

    Attributes:
        number: From 1 on, in the order of the inputs.
        job: The newest one under this number.
        earlier_job_ids: Oldest first.
        attempt_count: Over all of its jobs.
        selected: A caller has picked it.
    """

    number: int
    job: JobView
    earlier_job_ids: Sequence[JobId]
    attempt_count: int
    selected: bool

    def to_json(self) -> dict[str, Any]:
        return as_json(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchView:
    """A batch, as its owner sees it; all times are the database's, in UTC.

    Attributes:
        counters: How many items are where; they add up to `size`.
        progress: Per cent of the items that are not open any more.
        start_time: When its first item started.
        settle_time: When it last settled.
        failed_items: By number, at most 1,000; None where the call does not ask for them.
        replayed: Of a creation only: an earlier call with the same key had created the batch.
    """

    batch_id: BatchId
    job_type: JobType
    owner: Owner
    state: BatchState
    title: str
    size: int
    counters: BatchCounters
    progress: int
    target: Target | None
    create_time: datetime
    start_time: datetime | None
    settle_time: datetime | None
    labels: Mapping[str, str]
    last_event_number: int
    failed_items: Sequence[BatchItemView] | None = None
    replayed: bool = False

    @property
    def settled(self) -> bool:
        """Whether no item is open any more; trying failed ones again opens it."""
        return self.state not in OPEN_STATES

    def to_json(self) -> dict[str, Any]:
        return as_json(self)


@dataclass(frozen=True, slots=True)
class BatchEstimateView:
    """What a batch is likely to take.

    Attributes:
        cost: In the unit of the service's settings.
        work_time: Of the items one after the other.
    """

    size: int
    cost: Decimal
    work_time: timedelta

    def to_json(self) -> dict[str, Any]:
        return as_json(self)


@dataclass(frozen=True, slots=True)
class ItemsRetriedView:
    """The batch after its items were asked to be tried again.

    Attributes:
        count: How many this try tries again.
        replayed: An earlier try of the call, or a call with the same key, had done it; `count` is 0 then.
    """

    batch: BatchView
    count: int
    replayed: bool = False

    def to_json(self) -> dict[str, Any]:
        return as_json(self)


@dataclass(frozen=True, slots=True)
class BatchUpdate:
    """One thing that happened to a watched batch, and where to resume after it.

    Counters come where they have changed without an event, as when items start; values between two of these
    may have been passed over.
    """

    cursor: str
    what: BatchEvent | BatchCounters

    def to_json(self) -> dict[str, Any]:
        """Name the kind of update by its key, as the contract does."""
        return {
            type(self.what).__name__.removeprefix("Batch").lower(): as_json(self.what),
            "cursor": self.cursor,
        }


class BatchUnfinished(Exception):
    """The caller's time ran out; the batch goes on, and can be watched, waited for or cancelled.

    Attributes:
        batch: As it was seen last.
    """

    def __init__(self, batch: BatchView) -> None:
        super().__init__(f"batch {batch.batch_id} had not settled in time; it goes on")
        self.batch = batch
