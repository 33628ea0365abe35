"""A key set in a file, which is read again once it changes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import structlog

from shared.domain.errors import Unauthenticated
from shared.rpc.key_sets import KEY_SET_BYTES_MAX, KeySet, UnusableKey, VerifyingKey, read_key_set
from shared.runtime.faults import StartupFault
from shared.runtime.files import Version, version

log = structlog.get_logger(__name__)

_LOOK_AGAIN = timedelta(seconds=1)
"""A removed key counts no longer than this; looking is one question to the file system."""


class KeyFile:
    """Goes on with the keys that it knows while the file is away or can't be used."""

    def __init__(self, path: Path, *, setting: str, monotonic: Callable[[], float]) -> None:
        """Read the file.

        Args:
            setting: The environment variable that names the file.
            monotonic: Seconds; only differences count.

        Raises:
            StartupFault: It can't be read, or nothing can be verified with it.
        """
        self._path = path
        self._monotonic = monotonic
        self._looked_time = monotonic()
        self._version: Version | None = version(path)
        try:
            self._keys = self._read()
        except UnusableKey as unusable:
            raise StartupFault(f"{setting}: {path} can't be used: {unusable}") from None

    async def key(self, key_id: str | None) -> VerifyingKey:
        """Find the key of this name; the only one there is if a token names none.

        Raises:
            Unauthenticated: There is no such key.
        """
        if self._monotonic() - self._looked_time >= _LOOK_AGAIN.total_seconds():
            self._look()
        found = self._keys.find(key_id)
        if found is None:
            raise Unauthenticated
        return found

    def _look(self) -> None:
        self._looked_time = self._monotonic()
        present = version(self._path)
        if present == self._version:
            return
        self._version = present
        try:
            self._keys = self._read()
        except UnusableKey as unusable:
            log.warning("key_set.not_read", path=str(self._path), because=str(unusable))

    def _read(self) -> KeySet:
        try:
            with self._path.open("rb") as file:
                document = file.read(KEY_SET_BYTES_MAX + 1)
        except OSError as error:
            raise UnusableKey(error.strerror or "it can't be read") from None
        if len(document) > KEY_SET_BYTES_MAX:
            raise UnusableKey(f"it has more than {KEY_SET_BYTES_MAX} bytes")
        keys = read_key_set(document)
        log.info("key_set.read", path=str(self._path), keys=len(keys))
        return keys
