"""When a failed attempt is followed by another one, and how long that one waits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto

_DOUBLINGS_MAX = 32
"""Enough to pass any cap; more would overflow a timedelta."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits that double, with full jitter: anywhere between nothing and the bound.

    Attributes:
        base: The bound of the first wait.
        cap: No bound is higher, and no provider's wish is honoured beyond it.
    """

    base: timedelta
    cap: timedelta = timedelta(minutes=5)

    def delay(self, failures: int, *, uniform: float) -> timedelta:
        """Return the wait after `failures` (at least 1) in a row; `uniform` is a draw from [0, 1)."""
        doublings = min(failures - 1, _DOUBLINGS_MAX)
        return min(self.cap, self.base * (1 << doublings)) * uniform


class RetryClass(Enum):
    """What an error code says about trying again."""

    RETRY = auto()
    """Trying again may help."""
    ONCE = auto()
    """A fault of the engine: trying again may help once."""
    TIMEOUT = auto()
    """The definition says."""
    NEVER = auto()
    """Trying again can't help."""


_CLASSES: tuple[tuple[str, RetryClass], ...] = (
    ("PROVIDER_", RetryClass.RETRY),
    ("VALIDATION_", RetryClass.RETRY),
    ("INPUT_", RetryClass.NEVER),
    ("INTERNAL_", RetryClass.ONCE),
    ("CONTENT_SAFETY_", RetryClass.NEVER),
    ("CREDENTIAL_", RetryClass.NEVER),
)

TIMEOUT = "TIMEOUT"
EXECUTOR_LOST = "EXECUTOR_LOST"
PAYLOAD_TOO_LARGE = "PAYLOAD_TOO_LARGE"
INTERNAL_ERROR = "INTERNAL_ERROR"
INTERNAL_PROJECTION = "INTERNAL_PROJECTION"
VALIDATION_OUTPUT = "VALIDATION_OUTPUT"
START_BY_PASSED = "START_BY_PASSED"


def retry_class(code: str) -> RetryClass:
    """Tell how an error code is retried; a code of no known class counts as a fault of the engine."""
    if code == TIMEOUT:
        return RetryClass.TIMEOUT
    if code == PAYLOAD_TOO_LARGE:
        return RetryClass.NEVER
    return next((each for prefix, each in _CLASSES if code.startswith(prefix)), RetryClass.ONCE)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """A definition's promise about attempts that end without success.

    Attributes:
        max_retries: Tries after the first; at least 0.
        backoff: Wait before the next attempt.
        retry_timeouts: Whether a time-out is retried.
        losses_max: So many lost executors fail the job.
        life_max: A job older than this is not tried again; None means that it may grow as old as it likes.
    """

    max_retries: int
    backoff: Backoff
    retry_timeouts: bool = True
    losses_max: int = 3
    life_max: timedelta | None = None
