"""Says what a batch is likely to take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from shared.catalog.catalog import Catalog
from shared.domain.identity import JobType


@dataclass(frozen=True, slots=True)
class ItemEstimate:
    """What one item of a job type is likely to take."""

    cost: Decimal
    work_time: timedelta


@dataclass(frozen=True, slots=True)
class BatchEstimate:
    """What a batch is likely to take.

    Attributes:
        cost: In the unit of the settings.
        work_time: Of the items one after the other.
    """

    size: int
    cost: Decimal
    work_time: timedelta


class EstimateBatch:
    """Multiplies what settings say of an item; it asks nobody."""

    def __init__(self, catalog: Catalog, estimates: Mapping[JobType, ItemEstimate]) -> None:
        """Begin with what is known of items, by job type; of others nothing is, and they count 0."""
        self._catalog = catalog
        self._estimates = estimates

    async def __call__(self, job_type: str, size: int) -> BatchEstimate:
        """Estimate a batch of `size` items.

        Raises:
            UnknownJobType: No definition has that name.
        """
        raise NotImplementedError
