"""All invariants, in the order of their numbers."""

from __future__ import annotations

from verification.invariants import creation
from verification.invariants.invariant import Invariant

INVARIANTS: tuple[Invariant, ...] = (*creation.INVARIANTS,)
