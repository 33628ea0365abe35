"""Pauses a queue or a job type."""

from __future__ import annotations

import structlog

from job_api.operations.caller import Caller
from shared.catalog.catalog import Catalog
from shared.domain.audit import AuditAction
from shared.domain.errors import FieldViolation, InvalidInput
from shared.domain.naming import there_are
from shared.domain.pauses import Pausable, Pause, PauseKind
from shared.storage.audit import AuditEntry
from shared.storage.transactions import Transactions

log = structlog.get_logger(__name__)


class PauseWork:
    """Once it has returned, nothing of the queue or job type is leased any more; running leases go on."""

    def __init__(self, transactions: Transactions, catalog: Catalog) -> None:
        self._transactions = transactions
        self._catalog = catalog

    async def __call__(self, caller: Caller, pausable: Pausable, note: str) -> Pause:
        """Return the pause that stands then; idempotent: the first one stays, with its note.

        Raises:
            InvalidInput: There is no such queue.
            UnknownJobType: There is no such job type.
            PlatformUnavailable: It may or may not be paused; asking again is safe.
        """
        check_known(self._catalog, pausable)
        async with self._transactions.begin() as transaction:
            new = await transaction.pauses.add(pausable, subject=caller.subject, note=note)
            if new:
                action = AuditAction(f"{pausable.kind}.pause")
                record = AuditEntry(caller.subject, caller.subject, action, name=pausable.name)
                await transaction.audit.add([record])
            pause = (await transaction.pauses.all())[pausable]
        if new:
            log.info("work.paused", kind=pausable.kind, name=pausable.name, subject=caller.subject)
        return pause


def check_known(catalog: Catalog, pausable: Pausable) -> None:
    """Raise InvalidInput or UnknownJobType if the catalog does not have it."""
    match pausable.kind:
        case PauseKind.QUEUE:
            if pausable.name not in catalog.queues:
                known = there_are(catalog.queues)
                raise InvalidInput([FieldViolation("queue", f"there is no queue {pausable.name!r}{known}")])
        case PauseKind.JOB_TYPE:
            catalog.definition(pausable.name)
