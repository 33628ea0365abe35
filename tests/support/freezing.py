"""A server that hangs: its processes are there, and none of them does anything."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def frozen(process_id: int) -> Iterator[None]:
    """Stop a process and all below it, the parent first, so that it starts no other; go on at the end."""
    stopped: list[int] = []
    try:
        waiting = [process_id]
        while waiting:
            each = waiting.pop()
            os.kill(each, signal.SIGSTOP)
            stopped.append(each)
            children = Path(f"/proc/{each}/task/{each}/children").read_text()
            waiting += map(int, children.split())
        yield
    finally:
        for each in stopped:
            os.kill(each, signal.SIGCONT)
