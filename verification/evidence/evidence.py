"""All that judges go by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from verification.evidence.batches import BatchTables
from verification.evidence.history import History
from verification.evidence.ledger import Entry
from verification.evidence.samples import Samples
from verification.evidence.tables import Tables


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that was seen of a run, after its end.

    Attributes:
        ledger: What handlers wrote down.
        tables: The database's rows after everything had ended.
        samples: What was seen meanwhile, and what was searched.
        batches: The rows of batches, read like `tables`.
    """

    history: History
    ledger: Sequence[Entry]
    tables: Tables
    samples: Samples = field(default_factory=Samples)
    batches: BatchTables = field(default_factory=dict)
