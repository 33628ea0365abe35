"""A process that hangs: it is there with all below it, and none of them does anything."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path


def freeze(process_id: int) -> Sequence[int]:
    """Stop a process and all below it, the parent first, so that it starts no other; return all of them."""
    stopped: list[int] = []
    waiting = [process_id]
    while waiting:
        each = waiting.pop()
        os.kill(each, signal.SIGSTOP)
        stopped.append(each)
        waiting += children(each)
    return stopped


def children(process_id: int) -> Sequence[int]:
    """The processes that a process has started itself, and that still run."""
    return [int(each) for each in Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()]


def thaw(stopped: Sequence[int]) -> None:
    """Let processes go on; those that have ended meanwhile are passed over."""
    for each in stopped:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGCONT)


@contextmanager
def frozen(process_id: int) -> Iterator[None]:
    """Stop a process and all below it while the block runs."""
    stopped = freeze(process_id)
    try:
        yield
    finally:
        thaw(stopped)


@contextmanager
def frozen_alone(process_id: int) -> Iterator[None]:
    """Stop a process while the block runs, and nothing below it."""
    os.kill(process_id, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process_id, signal.SIGCONT)
