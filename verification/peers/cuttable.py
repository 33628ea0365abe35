"""A way to a server that can be cut, or swallow what passes, as a network or a restart would."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import Enum, auto
from urllib.parse import urlsplit, urlunsplit

_READ_BYTES = 64 * 1024


class Direction(Enum):
    TO_SERVER = auto()
    TO_CLIENT = auto()


class Cuttable:
    """Forwards connections to a server, or to several in turn.

    Attributes:
        taken: How many connections were taken so far.
    """

    def __init__(self, *urls: str) -> None:
        self._url = urlsplit(urls[0])
        self._servers = itertools.cycle([urlsplit(url) for url in urls])
        self._server: asyncio.Server | None = None
        self._port = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._swallowing: set[Direction] = set()
        self._connections: set[_Connection] = set()
        self.taken = 0

    @property
    def url(self) -> str:
        """The server's URL by this way."""
        address = f"{self._url.netloc.rpartition('@')[0]}@127.0.0.1:{self._port}"
        return urlunsplit(self._url._replace(netloc=address.removeprefix("@")))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def open(self) -> int:
        """How many connections either side still holds."""
        return len(self._connections)

    async def mend(self) -> None:
        """Take connections, on the same port as before."""
        self._server = await asyncio.start_server(self._forward, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """Break the connections that stand, and refuse new ones."""
        if self._server is not None:
            self._server.close()
        self._server = None
        self.reset()

    def reset(self) -> None:
        """Break the connections that stand; new ones are taken."""
        for writer in list(self._writers):
            writer.transport.abort()

    def swallow(self, *directions: Direction) -> None:
        """Let nothing through any more in these directions, not even that a side has gone."""
        self._swallowing |= set(directions)
        for connection in self._connections:
            connection.swallowing |= self._swallowing

    def heal(self) -> None:
        """Let new connections through. Those that have lost something never come back."""
        self._swallowing.clear()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.taken += 1
        connection = _Connection(self._swallowing)
        self._connections.add(connection)
        self._writers.add(writer)
        with suppress(OSError):
            server = next(self._servers)
            there = await asyncio.open_connection(server.hostname, server.port)
            self._writers.add(there[1])
            await asyncio.gather(
                connection.pump(reader, there[1], Direction.TO_SERVER),
                connection.pump(there[0], writer, Direction.TO_CLIENT),
            )
            there[1].transport.abort()
            self._writers.discard(there[1])
        writer.transport.abort()
        self._writers.discard(writer)
        self._connections.discard(connection)


class _Connection:
    def __init__(self, swallowing: set[Direction]) -> None:
        self.swallowing = set(swallowing)

    async def pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: Direction
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(_READ_BYTES):
                if direction not in self.swallowing:
                    writer.write(data)
                    await writer.drain()
        if direction not in self.swallowing:
            writer.transport.abort()


@asynccontextmanager
async def cuttable(*urls: str) -> AsyncIterator[Cuttable]:
    """A way that is open at first."""
    way = Cuttable(*urls)
    await way.mend()
    try:
        yield way
    finally:
        await way.cut()
