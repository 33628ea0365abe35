"""All that judges go by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from verification.evidence.history import History
from verification.evidence.ledger import Entry
from verification.evidence.tables import Tables


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that was seen of a run, after its end.

    Attributes:
        ledger: What handlers wrote down.
        tables: The database's rows after everything had ended.
        secrets: Marked texts that were planted in inputs, outputs and tokens.
        readable: Where secrets must not be, by names for people: logs, Redis, outbox payloads.
    """

    history: History
    ledger: Sequence[Entry]
    tables: Tables
    secrets: Sequence[str] = ()
    readable: Sequence[tuple[str, str]] = field(default=())
