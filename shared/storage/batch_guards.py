"""The life of a batch as SQL: guards, target states, and how a batch settles, each made from the domain."""

from __future__ import annotations

from shared.domain.batches import BATCH_TRANSITIONS, OPEN_STATES, BatchChange
from shared.storage.guards import listed

_STATE = "b.state"
"""Every statement with a guard calls the batch's row `b`."""


def allowed(change: BatchChange) -> str:
    """Render the condition that a batch's state allows `change`."""
    return f"{_STATE} in ({listed(BATCH_TRANSITIONS[change].sources)})"


def target(change: BatchChange) -> str:
    """Render the state that `change` leads to."""
    return f"'{BATCH_TRANSITIONS[change].target}'"


def still_open() -> str:
    """Render the condition that items of a batch are open, as far as its state tells."""
    return f"{_STATE} in ({listed(OPEN_STATES)})"


def settled_state() -> str:
    """Render the state in which a batch settles, as `settled_by` says; null while items are open.

    The row has the counters and `cancel_requested`.
    """
    return f"""case
        when waiting + running > 0 then null
        when cancel_requested then {target(BatchChange.CANCELLED)}
        when failed > 0 and succeeded > 0 then {target(BatchChange.PARTIALLY_FAILED)}
        when failed > 0 then {target(BatchChange.FAILED)}
        when succeeded > 0 then {target(BatchChange.SUCCEEDED)}
        else {target(BatchChange.CANCELLED)}
    end"""
