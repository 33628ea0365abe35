"""Knows whose work a task of this process is, also where a handler has started tasks of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

from job_worker.executor.loop_watch import NOBODY, Culprit

_OWNER: ContextVar[Culprit] = ContextVar("owner", default=NOBODY)
"""Inherited by every task that is created where it is set."""


class TaskOwners:
    """Notes each task's owner when it is created: no other thread can ask a task for its context."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Note the owners of all tasks that this loop creates from now on."""
        self._owners = WeakKeyDictionary[asyncio.Task[Any], Culprit]()
        loop.set_task_factory(self._create)

    @contextmanager
    def owned_by(self, owner: Culprit) -> Iterator[None]:
        """Have the tasks that are created inside the block, and by these, belong to `owner`."""
        before = _OWNER.set(owner)
        try:
            yield
        finally:
            _OWNER.reset(before)

    def of(self, task: asyncio.Task[Any] | None) -> Culprit:
        """Return a task's owner; for any thread."""
        return NOBODY if task is None else self._owners.get(task, NOBODY)

    def _create(
        self,
        loop: asyncio.AbstractEventLoop,
        coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        **named: Any,
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(coroutine, loop=loop, **named)
        if (owner := _OWNER.get()) != NOBODY:
            self._owners[task] = owner
        return task
