"""What holds of Redis: it has the head of a backlog, however long that is."""

from __future__ import annotations

from collections.abc import Iterator

from verification.evidence.evidence import Evidence
from verification.invariants.invariant import Invariant

MARK_MIN = 8
"""Entries that a stream may hold though nobody asks for work."""
BACKLOG_MIN = 100
"""With fewer attempts waiting, a short stream proves nothing."""
GROWTH_BYTES_MAX = 32 << 20
"""Of all that Redis uses, beside what it used before the backlog: connections, the copy of the events."""

_DEMAND_SLACK = 2
"""Demand goes up and down between two looks."""


def _heads_only(evidence: Evidence) -> Iterator[str | None]:
    demand = 0
    for sample in evidence.samples.samples:
        demand = max(demand, sample.demand)
        most = MARK_MIN + _DEMAND_SLACK * demand
        for stream, length in sample.entries.items() if sample.waiting >= BACKLOG_MIN else ():
            what = f"{stream} holds {length} of {sample.waiting} waiting attempts"
            yield None if length <= most else f"{what}, and executors could take {demand} at most"


def _memory_flat(evidence: Evidence) -> Iterator[str | None]:
    samples = evidence.samples.samples
    for sample in samples:
        if sample.waiting >= BACKLOG_MIN:
            grown = sample.memory_bytes - samples[0].memory_bytes
            flat = grown <= GROWTH_BYTES_MAX
            yield None if flat else f"Redis grew by {grown} bytes with {sample.waiting} waiting attempts"


INVARIANTS = (
    Invariant(12, "heads in Redis", "a lease stream holds the head of a backlog only", _heads_only),
    Invariant(12, "flat memory", "Redis does not grow with the backlog", _memory_flat),
)
