"""What a run cost: processor time of each part, and the database's work, for each job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bench import processor_time
from bench.database import Totals
from bench.engine import Stack
from bench.processor_time import Reading


@dataclass(frozen=True, slots=True)
class Account:
    """The counters at a moment."""

    reading: Reading
    totals: Totals

    @classmethod
    async def opened(cls, stack: Stack) -> Account:
        return cls(processor_time.read(stack.parts()), await stack.database.totals())


def costs(before: Account, after: Account, *, jobs: int, client_seconds: float = 0.0) -> Mapping[str, float]:
    """Return what was spent between two moments, for each of so many jobs; and how much others disturbed.

    Args:
        client_seconds: Processor time of the load process, which has ended by now.
    """
    parts = {
        name: seconds - before.reading.parts.get(name, 0.0) for name, seconds in after.reading.parts.items()
    }
    if client_seconds:
        parts["client"] = client_seconds
    metrics = {f"cpu_us_per_job_{name}": seconds * 1e6 / jobs for name, seconds in parts.items()}
    metrics["cpu_us_per_job"] = sum(metrics.values())
    for name in ("statements", "transactions", "buffers", "wal_bytes"):
        spent = getattr(after.totals, name) - getattr(before.totals, name)
        metrics[f"{name}_per_job"] = spent / jobs
    metrics["others_cores"] = processor_time.others_cores(before.reading, after.reading)
    return metrics
