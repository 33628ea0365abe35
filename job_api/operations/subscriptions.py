"""What waits in memory for one watcher, whatever is watched, and how a watch ends."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Protocol, Self, TypeVar

from shared.domain.errors import BatonError

ROOM_MIN = 64
"""So many numbered updates may wait for a watcher; while more do, nothing is read for it."""

Told = TypeVar("Told")
Place = TypeVar("Place")
Watch_contra = TypeVar("Watch_contra", contravariant=True)


class EndReason(StrEnum):
    """Why a watch ended on purpose."""

    FINISHED = "finished"
    SLOW = "slow"
    DRAINING = "draining"


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """Nothing happened for a while."""


@dataclass(frozen=True, slots=True)
class Sent(Generic[Told, Place]):
    """An update, and what the watcher has seen with it."""

    update: Told | KeepAlive | EndReason
    position: Place


class Feed(Protocol[Watch_contra]):
    """Reads for all watches of one kind together."""

    def join(self, subscription: Watch_contra, /) -> None:
        """Read for a watch from its position on."""
        ...

    def leave(self, subscription: Watch_contra, /) -> None:
        """Read no more for a watch; nothing happens if it has left."""
        ...

    def stir(self, subscription: Watch_contra, /) -> None:
        """Hear that a watch has room again."""
        ...


class Subscription(Generic[Told, Place]):
    """One watch: a feed puts in, one reader takes out; all in one event loop.

    Numbered updates wait in order; of those without a number only the latest waits, behind them.

    Attributes:
        position: What was read for the watch, so far.
        full_since: When it was first found without room; None while it has some.
    """

    def __init__(self, position: Place) -> None:
        self.position = position
        self.full_since: float | None = None
        self._sent = position
        self._waiting: deque[Sent[Told, Place]] = deque()
        self._latest: Told | None = None
        self._end: EndReason | BatonError | None = None
        self._stirred = asyncio.Event()

    @property
    def has_room(self) -> bool:
        return len(self._waiting) < ROOM_MIN

    @property
    def ended(self) -> bool:
        return self._end is not None

    def end(self, why: EndReason | BatonError) -> None:
        """End the watch: after what waits if it is finished, at once otherwise. The first end counts."""
        if self._end is not None:
            return
        self._end = why
        if why is not EndReason.FINISHED:
            self._waiting.clear()
        self._latest = None
        self._stirred.set()

    async def take(self, *, keep_alive_seconds: float) -> Sent[Told, Place]:
        """Wait for the next update; after `EndReason` there is none.

        Raises:
            BatonError: What the watch ended with.
        """
        try:
            async with asyncio.timeout(keep_alive_seconds):
                while not (self._waiting or self._latest is not None or self._end):
                    self._stirred.clear()
                    await self._stirred.wait()
        except TimeoutError:
            return self._beyond_all(KeepAlive())
        return self._next()

    async def follow(
        self, feed: Feed[Self], *, keep_alive_seconds: float
    ) -> AsyncGenerator[Sent[Told, Place], None]:
        """Yield what a feed has for this watch, up to and with the `EndReason`.

        Raises:
            BatonError: What the watch ended with.
        """
        feed.join(self)
        try:
            ended = False
            while not ended:
                had_room = self.has_room
                sent = await self.take(keep_alive_seconds=keep_alive_seconds)
                if self.has_room and not had_room:
                    feed.stir(self)
                ended = isinstance(sent.update, EndReason)
                yield sent
        finally:
            feed.leave(self)

    def _let_wait(self, numbered: Iterable[Sent[Told, Place]]) -> None:
        self._waiting.extend(numbered)
        if self._waiting:
            self._stirred.set()

    def _let_latest_wait(self, update: Told) -> None:
        self._latest = update
        self._stirred.set()

    def _next(self) -> Sent[Told, Place]:
        if self._waiting:
            sent = self._waiting.popleft()
            self._sent = sent.position
            return sent
        if self._latest is not None:
            latest, self._latest = self._latest, None
            return self._beyond_all(latest)
        if isinstance(self._end, BatonError):
            raise self._end
        return Sent(self._end or KeepAlive(), self._sent)

    def _beyond_all(self, update: Told | KeepAlive) -> Sent[Told, Place]:
        """Tell of an update while nothing numbered waits, so that all that was read is seen."""
        self._sent = self.position
        return Sent(update, self._sent)
