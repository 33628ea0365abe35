"""A way to a server that a test can cut, as a network or a restart would."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit, urlunsplit

_READ_BYTES = 64 * 1024


class Cuttable:
    """Forwards connections to a server. While it is cut, connections break and new ones are refused."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)
        self._server: asyncio.Server | None = None
        self._port = 0
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        """The server's URL by this way."""
        address = f"{self._url.netloc.rpartition('@')[0]}@127.0.0.1:{self._port}"
        return urlunsplit(self._url._replace(netloc=address.removeprefix("@")))

    async def mend(self) -> None:
        """Take connections, on the same port as before."""
        self._server = await asyncio.start_server(self._forward, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        if self._server is not None:
            self._server.close()
        self._server = None
        for writer in list(self._writers):
            writer.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            there = await asyncio.open_connection(self._url.hostname, self._url.port)
            self._writers |= {writer, there[1]}
            await asyncio.gather(_pump(reader, there[1]), _pump(there[0], writer))
            self._writers -= {writer, there[1]}


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(_READ_BYTES):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()


@asynccontextmanager
async def cuttable(url: str) -> AsyncIterator[Cuttable]:
    """A way that is open at first."""
    way = Cuttable(url)
    await way.mend()
    try:
        yield way
    finally:
        await way.cut()
