"""Creates jobs in pgqueuer, in an environment of its own: a pool of 16 connections, and lists in bulk."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.queries import Queries

from bench import load
from bench.work import Creator

ENTRYPOINT = "synthetic"


@dataclass(frozen=True, slots=True)
class _Jobs:
    queries: Queries

    async def create(self, document: bytes) -> str:
        return str((await self.queries.enqueue(ENTRYPOINT, document))[0])

    async def create_many(self, documents: Sequence[bytes]) -> None:
        many = len(documents)
        await self.queries.enqueue([ENTRYPOINT] * many, list(documents), [0] * many)


@asynccontextmanager
async def opened(url: str, gathered: bool) -> AsyncIterator[Creator]:
    if gathered:
        raise ValueError("pgqueuer does not gather calls")
    async with asyncpg.create_pool(url, min_size=16, max_size=16) as pool:
        yield _Jobs(Queries(AsyncpgPoolDriver(pool)))


if __name__ == "__main__":
    load.main(opened)
