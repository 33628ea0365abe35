"""Processor time by part, and by everyone else on the machine: read from /proc, in ticks of 10 ms."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_PARENT, _TIMES = 1, slice(11, 15)
"""Places in `stat` behind the program's name: the parent; user and system time, own and of ended children."""
_BUSY = (0, 1, 2, 5, 6, 7)
"""Places in the machine's `stat`: all but idle and waiting for disks; guests are in the first two already."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at the machine.

    Attributes:
        busy: Seconds of all processors together.
        parts: Seconds of each part: a process and all below it.
        ours: Seconds of this process and all below it.
    """

    time: float
    busy: float
    parts: Mapping[str, float]
    ours: float


def read(parts: Mapping[str, int]) -> Reading:
    """Read the times of parts, each given by its topmost process."""
    table = _table()
    children: dict[int, list[int]] = {}
    for process, (parent, _) in table.items():
        children.setdefault(parent, []).append(process)

    def below(top: int) -> float:
        return table.get(top, (0, 0.0))[1] + sum(below(each) for each in children.get(top, ()))

    return Reading(
        time=time.monotonic(),
        busy=_busy(),
        parts={name: below(process) for name, process in parts.items()},
        ours=below(os.getpid()),
    )


def others_cores(before: Reading, after: Reading) -> float:
    """Return the cores that were busy with what is not ours; the kernel's own threads count as others."""
    others = (after.busy - before.busy) - (after.ours - before.ours)
    return max(0.0, others) / (after.time - before.time)


def _table() -> dict[int, tuple[int, float]]:
    """Parent and seconds of every process; an ended child's are with the parent that waited for it."""
    table: dict[int, tuple[int, float]] = {}
    for directory in _PROC.glob("[0-9]*"):
        try:
            fields = (directory / "stat").read_bytes().rsplit(b")", 1)[1].split()
        except OSError:  # it has ended
            continue
        table[int(directory.name)] = int(fields[_PARENT]), sum(map(int, fields[_TIMES])) / _TICKS
    return table


def _busy() -> float:
    counts = (_PROC / "stat").read_text().splitlines()[0].split()[1:]
    return sum(int(counts[place]) for place in _BUSY) / _TICKS
