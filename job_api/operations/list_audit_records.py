"""Lists what callers did."""

from __future__ import annotations

from typing import Any

from job_api.operations import paging
from job_api.operations.paging import Page, PageRequest
from shared.storage.audit import AuditFilter, AuditPosition, AuditRecord
from shared.storage.transactions import Transactions

__all__ = ["AuditFilter", "AuditRecord", "ListAuditRecords"]


class ListAuditRecords:
    """Reads pages from the newest record on: those that are written meanwhile are on no later page."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def __call__(self, wanted: AuditFilter, page: PageRequest) -> Page[AuditRecord]:
        """Return a page of records, newest first.

        Raises:
            InvalidPageToken: The token is malformed, or belongs to another filter.
        """
        of = ["audit", paging.described(wanted)]
        after = paging.begin(page, of, _position, None)
        async with self._transactions.begin() as transaction:
            found = await transaction.audit.page(wanted, after=after, limit=page.size + 1)
        return paging.ended(found, page.size, of, _place)


def _place(record: AuditRecord) -> list[str]:
    """Write a position as a JSON value; JSON has no numbers as large as those of records."""
    return [paging.moment(record.record_time), str(record.audit_id)]


def _position(value: Any) -> AuditPosition:
    """Read what `_place` has written.

    Raises:
        TypeError: It is something else.
        ValueError: It is something else.
    """
    record_time, number = value
    return AuditPosition(paging.time(record_time), paging.long_ordinal(number))
