"""Says what a batch is likely to take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from shared.catalog.catalog import Catalog
from shared.catalog.definition import Domain, JobDefinition
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
        cost: In the unit of the settings, with their decimal places.
        work_time: Of the items one after the other.
    """

    size: int
    cost: Decimal
    work_time: timedelta


MEDIA_ITEM = ItemEstimate(Decimal("0.02"), timedelta(seconds=3))
"""Of a media type for which nothing is set."""
UNKNOWN_ITEM = ItemEstimate(Decimal(0), timedelta(0))
"""Of any other type for which nothing is set."""


class EstimateBatch:
    """Multiplies what is known of an item; it asks nobody."""

    def __init__(self, catalog: Catalog, estimates: Mapping[JobType, ItemEstimate]) -> None:
        """Begin with what settings say of items, by job type; others have what is said of their kind."""
        self._catalog = catalog
        self._estimates = estimates

    async def __call__(self, job_type: str, size: int) -> BatchEstimate:
        """Estimate a batch of `size` items.

        Raises:
            UnknownJobType: No definition has that name.
        """
        definition = self._catalog.definition(job_type)
        item = self._estimates.get(definition.job_type) or _usual(definition)
        return BatchEstimate(size, item.cost * size, item.work_time * size)


def _usual(definition: JobDefinition) -> ItemEstimate:
    return MEDIA_ITEM if definition.domain is Domain.MEDIA else UNKNOWN_ITEM
