"""Asks a URL for a key set: within seconds, a limited number of bytes, and never on the event loop.

The protocol is spoken by a thread of its own that nobody waits for longer than the limit. It follows no
redirect and heeds no proxy: the address that was checked at the start is the one that answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import ssl
from threading import Thread
from urllib.parse import SplitResult, urlsplit

from shared.rpc.key_sets import KEY_SET_BYTES_MAX
from shared.rpc.loopback import is_loopback
from shared.runtime.faults import StartupFault

FETCH_SECONDS_MAX = 5.0
"""From the name's resolution to the last byte; calls may wait for it."""
_HEADERS = {"Accept": "application/jwk-set+json, application/json", "Accept-Encoding": "identity"}


class NotFetched(Exception):
    """There was no answer, or none that can be used; says why in one line."""


class KeyFetch:
    """One question at a time: while one that hangs has a thread, the next is refused."""

    def __init__(self, url: str, *, setting: str, seconds_max: float = FETCH_SECONDS_MAX) -> None:
        """Check the URL.

        Args:
            setting: The environment variable that holds the URL.

        Raises:
            StartupFault: Others on the way could put keys of theirs into the answer, or it is no URL.
        """
        self._url = _checked(url, setting)
        self._seconds_max = seconds_max
        self._thread: Thread | None = None

    @property
    def shown_url(self) -> str:
        """For logs: without what follows the path, where issuers take keys of their callers."""
        return self._url._replace(query="", fragment="").geturl()

    async def __call__(self) -> bytes:
        """Return the answer's body.

        Raises:
            NotFetched: There was none of use.
        """
        if self._thread is not None and self._thread.is_alive():
            raise NotFetched("the last question still hangs")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()
        question = _Question(self._url, self._seconds_max)

        def ask() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits
                try:
                    body = question.body()
                except NotFetched as not_fetched:
                    loop.call_soon_threadsafe(_settle, answer, not_fetched)
                else:
                    loop.call_soon_threadsafe(_settle, answer, body)

        # A thread of the loop's own executor would be joined at the end, however long it hangs.
        self._thread = Thread(target=ask, name="key-set", daemon=True)
        self._thread.start()
        try:
            async with asyncio.timeout(self._seconds_max):
                return await answer
        except TimeoutError:
            raise _too_late(self._seconds_max) from None
        finally:
            question.give_up()


class _Question:
    """Put by one thread, and given up by another."""

    def __init__(self, url: SplitResult, seconds_max: float) -> None:
        self._url = url
        self._seconds_max = seconds_max
        self._socket: socket.socket | None = None
        self._given_up = False

    def body(self) -> bytes:
        """Ask, and return the answer's body.

        Raises:
            NotFetched: There was none of use.
        """
        try:
            with contextlib.closing(self._connection()) as connection:
                connection.connect()
                # The connection lets go of it before the body is read.
                self._socket = connection.sock
                if self._given_up:
                    raise NotFetched("nobody waits any more")
                return _answer(connection, self._url)
        except http.client.HTTPException as error:
            raise NotFetched(f"it does not speak HTTP as expected: {type(error).__name__}") from None
        except TimeoutError:  # the thread may be the first to see that its time is over
            raise _too_late(self._seconds_max) from None
        except (OSError, ValueError) as error:
            raise NotFetched(str(error) or type(error).__name__) from None

    def give_up(self) -> None:
        """Wake the thread, also one that reads from a server which sends a byte now and then."""
        self._given_up = True
        if self._socket is not None:
            with contextlib.suppress(OSError):  # it is closed already
                self._socket.shutdown(socket.SHUT_RDWR)

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=self._seconds_max)
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(host, port, timeout=self._seconds_max, context=context)


def _too_late(seconds_max: float) -> NotFetched:
    return NotFetched(f"there was no whole answer within {seconds_max:g} s")


def _answer(connection: http.client.HTTPConnection, url: SplitResult) -> bytes:
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    connection.request("GET", path, headers=_HEADERS)
    with connection.getresponse() as response:
        if response.status != http.HTTPStatus.OK:
            raise NotFetched(f"it answered {response.status}")
        body = response.read(KEY_SET_BYTES_MAX + 1)
    if len(body) > KEY_SET_BYTES_MAX:
        raise NotFetched(f"it answered with more than {KEY_SET_BYTES_MAX} bytes")
    return body


def _settle(answer: asyncio.Future[bytes], outcome: bytes | NotFetched) -> None:
    if answer.done():
        return
    if isinstance(outcome, NotFetched):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)


def _checked(url: str, setting: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise StartupFault(f"{setting} is no URL") from None
    if not host or parts.scheme not in {"http", "https"}:
        raise StartupFault(f"{setting} must be an https:// URL")
    if parts.username is not None or parts.password is not None:
        raise StartupFault(f"{setting} must hold no user and no password")
    if parts.scheme == "http" and not is_loopback(host):
        raise StartupFault(
            f"{setting} must be an https:// URL: over http:// anyone on the way could sign tokens "
            "(on this machine itself http:// is fine)"
        )
    return parts
