"""What holds of secrets: planted in inputs, they are in the database and in no other place."""

from __future__ import annotations

from collections.abc import Iterator

from verification.evidence.evidence import Evidence
from verification.invariants.invariant import Invariant


def _kept(evidence: Evidence) -> Iterator[str | None]:
    for search in evidence.samples.searches:
        found = f"{search.place} holds what only inputs and leases may: {search.found[:1]}"
        yield found if search.found else None


INVARIANTS = (
    Invariant(
        11, "secrets kept", "no input and no token is in a log, in Redis or in an outbox payload", _kept
    ),
)
