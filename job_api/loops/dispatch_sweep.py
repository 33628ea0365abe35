"""Repairs what Redis lost: attempts that it was told about and that nobody claimed are sent again."""

from __future__ import annotations

from datetime import timedelta

import structlog

from shared.domain.identity import StreamName
from shared.storage.transactions import Transactions
from shared.streams.lease_streams import Depth, LeaseStreams

log = structlog.get_logger(__name__)

ROWS_PER_STEP_MAX = 5_000
"""Rows that one transaction takes back: some 50 ms of locks."""


class DispatchSweep:
    """All the repair that there is: no start-up step, no journal.

    A row that was sent again although its entry is still there costs one refused claim.
    """

    def __init__(
        self, transactions: Transactions, streams: LeaseStreams, *, unclaimed_age: timedelta
    ) -> None:
        """Take rows back that were delivered `unclaimed_age` ago, by the database's clock."""
        self._transactions = transactions
        self._streams = streams
        self._unclaimed_age = unclaimed_age

    async def step(self) -> bool:
        """Make unclaimed rows pending again; return True if there may be more.

        Those of a stream that is missing at once; others once they are old, unless all executors that could
        take them are busy: then they rightly wait.
        """
        async with self._transactions.begin() as transaction:
            delivered = await transaction.dispatches.delivered_streams(age=self._unclaimed_age)
            if not delivered:
                return False
            depths = await self._streams.depths(delivered)
            lost = [stream for stream, depth in depths.items() if depth.length is None]
            overdue = [stream for stream, depth in depths.items() if delivered[stream] and _overdue(depth)]
            count = await transaction.dispatches.put_back(lost, limit=ROWS_PER_STEP_MAX)
            count += await transaction.dispatches.put_back(
                overdue, age=self._unclaimed_age, limit=ROWS_PER_STEP_MAX
            )
        _report(lost, overdue, count)
        return count >= ROWS_PER_STEP_MAX


def _overdue(depth: Depth) -> bool:
    """Whether somebody should have claimed an old row; if nobody knows of executors, time alone decides."""
    return depth.length is not None and depth.demand != 0


def _report(lost: list[StreamName], overdue: list[StreamName], count: int) -> None:
    if count:
        log.warning("dispatches.sent_again", rows=count, lost=lost, overdue=overdue)
