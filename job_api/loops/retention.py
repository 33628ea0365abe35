"""Removes what nobody needs any more: expired keys, unused documents, old sessions, events and days."""

from __future__ import annotations

from datetime import timedelta

import structlog

from shared.storage.transactions import Transactions

log = structlog.get_logger(__name__)

ROWS_PER_STEP_MAX = 1_000
"""Rows that one transaction removes, so that none holds locks or an old snapshot for long."""

UPLOADS_PER_STEP_MAX = 20
"""Documents are up to 32 MiB each."""

UNUSED_UPLOAD_AGE = timedelta(days=1)
"""A caller has so long to create the job that refers to a document."""

SESSION_AGE = timedelta(days=1)
"""Far above the longest life of a session (36 min), so no executor that lives is ever forgotten."""

OWNER_DAY_AGE = timedelta(days=32)
"""No month has a day so long before today."""

EVENTS_KEPT_FOR = timedelta(days=30)
"""Where nothing else is set: long enough for a reader that was away for a holiday."""


class Retention:
    """Each kind in a transaction of its own."""

    def __init__(self, transactions: Transactions, *, events_kept_for: timedelta = EVENTS_KEPT_FOR) -> None:
        self._transactions = transactions
        self._events_kept_for = events_kept_for

    async def step(self) -> bool:
        """Remove a batch of each kind; return True if one of them was full."""
        async with self._transactions.begin() as transaction:
            keys = await transaction.retention.remove_expired_keys(limit=ROWS_PER_STEP_MAX)
        async with self._transactions.begin() as transaction:
            uploads = await transaction.retention.remove_unused_uploads(
                age=UNUSED_UPLOAD_AGE, limit=UPLOADS_PER_STEP_MAX
            )
        async with self._transactions.begin() as transaction:
            sessions = await transaction.sessions.forget_old(age=SESSION_AGE, limit=ROWS_PER_STEP_MAX)
        async with self._transactions.begin() as transaction:
            events = await transaction.event_feed.remove_old(
                age=self._events_kept_for, limit=ROWS_PER_STEP_MAX
            )
        async with self._transactions.begin() as transaction:
            days = await transaction.owner_days.remove_old(age=OWNER_DAY_AGE, limit=ROWS_PER_STEP_MAX)
        removed = {"keys": keys, "uploads": uploads, "sessions": sessions, "events": events, "days": days}
        if any(removed.values()):
            log.info("expired.removed", **removed)
        return uploads == UPLOADS_PER_STEP_MAX or ROWS_PER_STEP_MAX in (keys, sessions, events, days)
