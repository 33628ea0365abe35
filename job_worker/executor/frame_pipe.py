"""Protobuf frames over a stream socket between two processes of one machine, each preceded by its length."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Generic, TypeVar

from google.protobuf.message import Message

_LENGTH_BYTES = 4
FRAME_BYTES_MAX = 256 * 1024 * 1024
"""More is a broken pipe, not a frame: it holds the largest document eight times."""
_GATHERED_BYTES_MAX = 4 * 1024 * 1024
"""What is gathered beyond it goes into another frame, so that none grows without bound."""

F = TypeVar("F", bound=Message)


class FramePipe:
    """One end of a connection. What is written waits until the other side reads it: writers have bounds."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, end: socket.socket) -> FramePipe:
        """Take over one end of a socket pair."""
        reader, writer = await asyncio.open_unix_connection(sock=end)
        return cls(reader, writer)

    async def read(self) -> bytes | None:
        """Return the next frame; None at the end, also if it comes in the middle of a frame."""
        try:
            length = int.from_bytes(await self._reader.readexactly(_LENGTH_BYTES), "big")
            if length > FRAME_BYTES_MAX:
                return None
            return await self._reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    def write(self, frame: Message) -> None:
        """Send a frame; one that is written after the other side has gone is dropped."""
        if not self._writer.is_closing():
            content = frame.SerializeToString()
            self._writer.write(len(content).to_bytes(_LENGTH_BYTES, "big") + content)

    def close(self) -> None:
        self._writer.close()


class GatheredFrames(Generic[F]):
    """Everything that is said in one turn of the event loop, in one frame."""

    def __init__(self, pipe: FramePipe, new_frame: Callable[[], F]) -> None:
        self._pipe = pipe
        self._new_frame = new_frame
        self._frame: F | None = None
        self._bytes = 0

    def frame(self, content_bytes: int = 0) -> F:
        """Return the frame that will be sent next.

        Args:
            content_bytes: About how much is to be put into it.
        """
        if self._bytes + content_bytes > _GATHERED_BYTES_MAX:
            self.flush()
        if self._frame is None:
            self._frame = self._new_frame()
            asyncio.get_running_loop().call_soon(self.flush)
        self._bytes += content_bytes
        return self._frame

    def flush(self) -> None:
        """Send what was gathered; nothing if there is nothing."""
        frame, self._frame, self._bytes = self._frame, None, 0
        if frame is not None:
            self._pipe.write(frame)
