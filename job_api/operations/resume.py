"""Resumes a queue or a job type."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import structlog

from job_api.operations.caller import Caller
from job_api.operations.pause import check_known
from shared.catalog.catalog import Catalog
from shared.domain.audit import AuditAction
from shared.domain.pauses import Pausable
from shared.storage.audit import AuditEntry
from shared.storage.transactions import Transactions

log = structlog.get_logger(__name__)


class ResumeWork:
    """What waited goes on in its order; this replica's dispatcher is woken, the others look by themselves."""

    def __init__(
        self, transactions: Transactions, catalog: Catalog, *, wake_dispatcher: asyncio.Event
    ) -> None:
        self._transactions = transactions
        self._catalog = catalog
        self._wake_dispatcher = wake_dispatcher

    async def __call__(self, caller: Caller, pausable: Pausable) -> timedelta:
        """Return how long it was paused, zero if it was not; idempotent.

        What is paused can be resumed also after a deployment has dropped it.

        Raises:
            InvalidInput: There is no such queue.
            UnknownJobType: There is no such job type.
            PlatformUnavailable: It may or may not be paused; asking again is safe.
        """
        async with self._transactions.begin() as transaction:
            span = await transaction.pauses.remove(pausable)
            if span is not None:
                action = AuditAction(f"{pausable.kind}.resume")
                record = AuditEntry(caller.subject, caller.subject, action, name=pausable.name)
                await transaction.audit.add([record])
        if span is None:
            check_known(self._catalog, pausable)
            return timedelta(0)
        log.info("work.resumed", kind=pausable.kind, name=pausable.name, subject=caller.subject)
        self._wake_dispatcher.set()
        return span
