"""A key set behind a URL, as issuers of tokens publish it.

The set is fetched when the first token comes, again as it ages, and when a token names a key that it does not
have, which is how issuers bring in new keys. However many calls wait and whatever tokens hold, one fetch runs
at a time, and after one that failed, or one for the sake of an unknown key, the next waits. While the
URL is away the keys that are known go on, for a day; without any, a token can't be judged, and the call is
answered `UNAVAILABLE` rather than refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import structlog

from shared.domain.errors import PlatformUnavailable, Unauthenticated
from shared.rpc.key_fetch import NotFetched
from shared.rpc.key_sets import KeySet, UnusableKey, VerifyingKey, read_key_set

log = structlog.get_logger(__name__)

_FRESH = timedelta(minutes=5)
"""A set of this age is fetched again while calls go on with it."""
_STALE = timedelta(minutes=15)
"""Calls wait for a newer set than this, unless the last fetch failed: nobody may have called for hours."""
_KEPT = timedelta(hours=24)
"""The longest that keys count without word from their issuer, who may have withdrawn them."""
_NEXT_FETCH = timedelta(seconds=10)
"""The soonest that a fetch follows one that failed, or one that an unknown key caused."""

Fetch = Callable[[], Awaitable[bytes]]
"""Raises: NotFetched."""


class KeyUrl:
    """Fetches when asked for a key, never by itself; for one event loop."""

    def __init__(self, fetch: Fetch, *, url: str, monotonic: Callable[[], float]) -> None:
        """Fetch nothing yet; `url` is for the log, and of `monotonic`, seconds, only differences count."""
        self._fetch = fetch
        self._url = url
        self._monotonic = monotonic
        self._keys: KeySet | None = None
        self._fetched_time = 0.0
        self._tried_time: float | None = None
        self._failing = False
        self._fetching: asyncio.Task[None] | None = None

    async def key(self, key_id: str | None) -> VerifyingKey:
        """Find the key of this name; the only one there is if a token names none.

        Raises:
            Unauthenticated: There is no such key.
            PlatformUnavailable: No keys could be had yet, or none for a day.
        """
        await self._refresh_by_age()
        found = self._found(key_id)
        if found is None and self._may_fetch():
            await self._wait_for(self._begin())
            found = self._found(key_id)
        if found is None:
            raise Unauthenticated
        return found

    async def look(self) -> None:
        """Fetch the set now; without success that is in the log, and the first call tries again."""
        await self._wait_for(self._begin())

    async def _refresh_by_age(self) -> None:
        if (self._keys is not None and self._age() < _FRESH) or not self._may_fetch():
            return
        fetching = self._begin()
        if self._is_spent() or (self._age() >= _STALE and not self._failing):
            await self._wait_for(fetching)

    def _found(self, key_id: str | None) -> VerifyingKey | None:
        if self._keys is None or self._is_spent():
            raise PlatformUnavailable("issuer")
        return self._keys.find(key_id)

    def _may_fetch(self) -> bool:
        """Whether the last fetch is long enough ago, or still runs and can be waited for."""
        if self._fetching is not None or self._tried_time is None:
            return True
        return self._monotonic() - self._tried_time >= _NEXT_FETCH.total_seconds()

    def _begin(self) -> asyncio.Task[None]:
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._fetch_once(), name="key-set")
            self._fetching.add_done_callback(self._ended)
        return self._fetching

    def _ended(self, _: asyncio.Task[None]) -> None:
        self._fetching = None

    async def _wait_for(self, fetching: asyncio.Task[None]) -> None:
        """Wait for a fetch; a caller that goes away meanwhile does not end it for the others."""
        await asyncio.shield(fetching)

    async def _fetch_once(self) -> None:
        try:
            self._keys = read_key_set(await self._fetch())
        except (NotFetched, UnusableKey) as error:
            self._failing = True
            known = 0 if self._keys is None else len(self._keys)
            log.warning("key_set.not_fetched", url=self._url, because=str(error), known_keys=known)
        else:
            self._failing = False
            self._fetched_time = self._monotonic()
            log.info("key_set.fetched", url=self._url, keys=len(self._keys))
        finally:
            self._tried_time = self._monotonic()

    def _is_spent(self) -> bool:
        return self._keys is None or self._age() >= _KEPT

    def _age(self) -> timedelta:
        return timedelta(seconds=self._monotonic() - self._fetched_time)
