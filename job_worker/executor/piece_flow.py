"""Numbers, hashes and paces the output pieces of one attempt, inside its handler process."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque

from job_worker.executor.handler import Cancelled, HandlerFailure
from shared.domain.retries import PAYLOAD_TOO_LARGE, VALIDATION_OUTPUT

PIECES_UNSTORED_MAX = 256
"""So many are under way at a time: enough to fill frames, few enough to keep and send again."""
BYTES_UNSTORED_MAX = 1024 * 1024
"""And so many bytes, unless a single piece has more."""


class PieceFlow:
    """The pieces of an attempt; used on the event loop only."""

    def __init__(self, piece_bytes_max: int) -> None:
        self.count = 0
        self._piece_bytes_max = piece_bytes_max
        self._hash = hashlib.sha256()
        self._unstored: deque[tuple[int, int]] = deque()
        self._unstored_bytes = 0
        self._room = asyncio.Event()

    @property
    def hash(self) -> str:
        """SHA-256 over all pieces in order, in hex; empty if there are none."""
        return self._hash.hexdigest() if self.count else ""

    async def admit(self, text: str, cancelled: asyncio.Event) -> int:
        """Wait until there is room, and return the piece's number.

        Raises:
            HandlerFailure: The piece is too large, or holds what no text may.
            Cancelled: The attempt is to stop, and there is no room.
        """
        size = self._checked_size(text)
        while not self._has_room(size):
            if cancelled.is_set():
                raise Cancelled
            self._room.clear()
            await self._room.wait()
        self.count += 1
        self._hash.update(text.encode())
        self._unstored.append((self.count, size))
        self._unstored_bytes += size
        return self.count

    def stored(self, number: int) -> None:
        """Take in that all pieces up to `number` are stored."""
        while self._unstored and self._unstored[0][0] <= number:
            self._unstored_bytes -= self._unstored.popleft()[1]
        self._room.set()

    def wake(self) -> None:
        """Let whoever waits for room look again, since the attempt is to stop."""
        self._room.set()

    def _has_room(self, size: int) -> bool:
        if not self._unstored:
            return True
        return len(self._unstored) < PIECES_UNSTORED_MAX and self._unstored_bytes + size <= BYTES_UNSTORED_MAX

    def _checked_size(self, text: str) -> int:
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            raise HandlerFailure(VALIDATION_OUTPUT, "a piece holds half of a surrogate pair") from None
        if "\0" in text:
            raise HandlerFailure(VALIDATION_OUTPUT, "a piece holds a NUL character")
        if size > self._piece_bytes_max:
            sentence = f"a piece has {size} bytes; at most {self._piece_bytes_max} are allowed"
            raise HandlerFailure(PAYLOAD_TOO_LARGE, sentence)
        return size
