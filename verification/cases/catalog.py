"""All cases, in the order of their numbers."""

from __future__ import annotations

from verification.cases import (
    batches,
    busy_handler,
    cancel,
    delivery,
    everything,
    idempotency,
    last_words,
    poison,
    projection,
    redis_wiped,
    rolling_stop,
    streamed_output,
    times,
    zombie,
)
from verification.cases.case import Case

CASES: tuple[Case, ...] = (
    zombie.CASE,
    busy_handler.CASE,
    redis_wiped.CASE,
    cancel.CASE,
    idempotency.CASE,
    poison.CASE,
    rolling_stop.CASE,
    projection.CASE,
    streamed_output.CASE,
    everything.CASE,
    delivery.CASE,
    times.CASE,
    last_words.CASE,
    batches.CASE,
)
