"""All invariants, in the order of their numbers; 16 is a promise that came later.

1 to 13 are the engine's promises. Two more follow from its states: 14, changes are legal and an end stays;
15, what waits is dispatched, and nothing is left of what has ended.
"""

from __future__ import annotations

from collections.abc import Sequence

from verification.invariants import (
    attempts,
    audit,
    batches,
    cancelling,
    creation,
    events,
    fencing,
    keys,
    memory,
    order,
    reports,
    results,
    secrets,
    states,
)
from verification.invariants.invariant import Invariant
from verification.invariants.rows import RowRule

_MODULES: Sequence[Sequence[Invariant]] = (
    creation.INVARIANTS,
    results.INVARIANTS,
    fencing.INVARIANTS,
    reports.INVARIANTS,
    cancelling.INVARIANTS,
    keys.INVARIANTS,
    events.INVARIANTS,
    batches.INVARIANTS,
    attempts.INVARIANTS,
    secrets.INVARIANTS,
    memory.INVARIANTS,
    order.INVARIANTS,
    states.INVARIANTS,
    audit.INVARIANTS,
)

INVARIANTS: tuple[Invariant, ...] = tuple(
    sorted((each for module in _MODULES for each in module), key=lambda invariant: invariant.number)
)

AT_EVERY_MOMENT: tuple[RowRule, ...] = (
    results.committed_once,
    results.told_others_once,
    fencing.one_after_the_other,
    cancelling.cancel_wins,
    events.without_gaps,
    attempts.numbered,
    attempts.counted,
    attempts.no_fault_of_its_own,
    states.told_in_order,
    states.dispatched_while_waiting,
    states.nothing_left,
)
"""What is true of a job's rows not only after everything has ended."""
