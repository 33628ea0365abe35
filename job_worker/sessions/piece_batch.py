"""Gathers output pieces of all sessions, and stores what gathered while the last ones were being stored."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from job_worker.operations.store_pieces import OutputPiece, StorePieces
from job_worker.sessions.session import Session
from shared.domain.leases import LeaseRef

PIECES_MAX = 1_000
"""Of one statement."""
CHARACTERS_MAX = 2 * 1024 * 1024
"""Of one statement; a piece has at most 64 KiB."""
WAITING_CHARACTERS_MAX = 16 * 1024 * 1024
"""Executors are not listened to while more than this waits."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    piece: OutputPiece
    session: Session


class PieceBatch:
    """Keeps the order within a lease.

    Attributes:
        added: Set when there is something to store.
    """

    def __init__(self, store_pieces: StorePieces) -> None:
        self.added = asyncio.Event()
        self._store_pieces = store_pieces
        self._waiting = deque[_Waiting]()
        self._characters = 0
        self._storing = asyncio.Lock()
        self._room = asyncio.Event()
        self._room.set()

    def add(self, session: Session, pieces: Sequence[OutputPiece]) -> None:
        self._waiting.extend(_Waiting(each, session) for each in pieces)
        self._characters += sum(len(each.text) for each in pieces)
        if self._characters > WAITING_CHARACTERS_MAX:
            self._room.clear()
        if pieces:
            self.added.set()

    async def room(self) -> None:
        """Wait until there is room for more."""
        await self._room.wait()

    async def step(self) -> bool:
        """Store one statement's worth; True if more waits."""
        async with self._storing:
            await self._store_next()
        return bool(self._waiting)

    async def flush(self, ending: Collection[LeaseRef]) -> None:
        """Store all that waits now, if any of it is of leases that are about to end.

        Afterwards their pieces would be refused: a result would miss them, and so would whoever reads how far
        a failure came.

        Raises:
            PlatformUnavailable: Some of it may be stored; calling again is safe.
        """
        if not any(each.piece.lease in ending for each in self._waiting):
            return
        async with self._storing:
            left = len(self._waiting)
            while left > 0:
                left -= await self._store_next()

    async def _store_next(self) -> int:
        batch = self._next()
        if not batch:
            return 0
        stored = await self._store_pieces([each.piece for each in batch])
        for each in batch:
            self._waiting.popleft()
            self._characters -= len(each.piece.text)
        if self._characters <= WAITING_CHARACTERS_MAX // 2:
            self._room.set()
        for ref, session in {each.piece.lease: each.session for each in batch}.items():
            _tell(session, ref, stored.get(ref))
        return len(batch)

    def _next(self) -> list[_Waiting]:
        batch, left = list[_Waiting](), CHARACTERS_MAX
        for each in self._waiting:
            left -= len(each.piece.text)
            if batch and (left < 0 or len(batch) == PIECES_MAX):
                break
            batch.append(each)
        return batch


def _tell(session: Session, ref: LeaseRef, number: int | None) -> None:
    if number is None:
        session.outgoing.add_lost([ref])
    else:
        session.outgoing.add_pieces_recorded({ref: number})
