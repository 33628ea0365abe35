"""What every engine is given to do, and how fast it is given: shared by all load processes.

Standard library only, for the peer's processes run it in an environment of their own.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

_INPUT_BYTES = 200
_MARKS_WAIT_SECONDS = 10.0


class Creator(Protocol):
    """Creates jobs in one engine, each durable once the call has returned."""

    async def create(self, document: bytes) -> str:
        """Create a job and return its id, as its handler will write it."""

    async def create_many(self, documents: Sequence[bytes]) -> None:
        """Create jobs in one call."""


def document(**extra: object) -> bytes:
    """Return the input of a job that does nothing, of about 200 bytes."""
    order = {"items": 0, "report_progress": False, "note": "", **extra}
    order["note"] = "x" * (_INPUT_BYTES - len(json.dumps(order)))
    return json.dumps(order).encode()


async def one_by_one(creator: Creator, *, jobs: int, callers: int) -> None:
    """Create jobs by one call each, with so many callers at once."""
    numbers: Iterator[int] = iter(range(jobs))
    text = document()

    async def caller() -> None:
        for _ in numbers:
            await creator.create(text)

    await asyncio.gather(*(caller() for _ in range(callers)))


async def in_bulk(creator: Creator, *, jobs: int, batch: int) -> None:
    """Create jobs by one caller, so many to a call."""
    text = document()
    for start in range(0, jobs, batch):
        await creator.create_many([text] * min(batch, jobs - start))


async def paced(creator: Creator, *, jobs: int, per_second: float, marks: Path) -> Mapping[str, list[float]]:
    """Create jobs at an even pace, and see when their handlers start.

    Both ends are read from this process's clock: handlers write a line into a pipe, and its arrival here
    counts as their start, which adds one wake-up of this process to every figure of every engine.

    Args:
        marks: Where to make that pipe; the engine's handlers must be able to open it.

    Returns:
        Milliseconds, a list for each: `call` from the call to its answer, `start` from the call to the start.

    Raises:
        TimeoutError: A handler did not start in time.
    """
    text = document(ledger=str(marks))
    called: dict[str, float] = {}
    call_ms: list[float] = []
    with _started(marks) as started:
        begin = time.perf_counter()
        for number in range(jobs):
            await asyncio.sleep(max(0.0, begin + number / per_second - time.perf_counter()))
            before = time.perf_counter()
            job_id = await creator.create(text)
            call_ms.append((time.perf_counter() - before) * 1e3)
            called[job_id] = before
        await asyncio.wait_for(_all_in(called, started), _MARKS_WAIT_SECONDS)
    return {"call": call_ms, "start": [(started[each] - called[each]) * 1e3 for each in called]}


async def _all_in(called: Mapping[str, float], started: Mapping[str, float]) -> None:
    for each in called:
        while each not in started:  # noqa: ASYNC110 - it is over in a moment
            await asyncio.sleep(0.01)


@contextmanager
def _started(marks: Path) -> Iterator[dict[str, float]]:
    """Make the pipe, and note when a first line about a job arrives, by job id."""
    arrived: dict[str, float] = {}
    rest = b""
    os.mkfifo(marks)
    pipe = os.open(marks, os.O_RDWR | os.O_NONBLOCK)  # a writer of its own, so that it never ends

    def read() -> None:
        nonlocal rest
        now = time.perf_counter()
        *lines, rest = (rest + os.read(pipe, 65_536)).split(b"\n")
        for line in lines:
            arrived.setdefault(line.split()[0].decode(), now)

    asyncio.get_running_loop().add_reader(pipe, read)
    try:
        yield arrived
    finally:
        asyncio.get_running_loop().remove_reader(pipe)
        os.close(pipe)
        marks.unlink()
