"""Sends dead messages again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from job_api.operations.caller import Caller
from shared.domain.audit import AuditAction
from shared.storage.audit import AuditEntry
from shared.storage.transactions import Transactions

log = structlog.get_logger(__name__)

RESENT_PER_CALL_MAX = 10_000
"""About a second in one statement, and nobody waits for these rows."""


class ResendOutboxMessages:
    """A message that is still at fault is dead again after as many tries as before, and holds up no other."""

    def __init__(self, transactions: Transactions, *, wake_dispatcher: asyncio.Event) -> None:
        self._transactions = transactions
        self._wake_dispatcher = wake_dispatcher

    async def __call__(self, caller: Caller, outbox_ids: Sequence[int]) -> int:
        """Make dead messages pending, at most `RESENT_PER_CALL_MAX`, and return how many; idempotent.

        Args:
            outbox_ids: Which ones; those that are not dead are left alone. Empty means all, oldest first.

        Raises:
            PlatformUnavailable: They may or may not be pending; asking again is safe.
        """
        async with self._transactions.begin() as transaction:
            count = await transaction.outbox_messages.resend(outbox_ids or None, limit=RESENT_PER_CALL_MAX)
            if count:
                record = AuditEntry(caller.subject, caller.subject, AuditAction.OUTBOX_RESEND)
                await transaction.audit.add([record])
        if count:
            log.info("outbox_messages.resent", count=count, subject=caller.subject)
            self._wake_dispatcher.set()
        return count
