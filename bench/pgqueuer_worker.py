"""Sets pgqueuer up, or runs its worker: `python -m bench.pgqueuer_worker install|work URL`.

Batches of 100 and at most 400 at once (the defaults are 10 and no limit); its durability as shipped.
"""

from __future__ import annotations

import json
import os
import sys

import asyncpg
import uvloop
from pgqueuer import Job, PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.queries import Queries

from bench.pgqueuer_load import ENTRYPOINT

_BATCH = 100
_AT_ONCE = 400


async def install(url: str) -> None:
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool:
        await Queries(AsyncpgPoolDriver(pool)).install()


async def work(url: str) -> None:
    """Run handlers that do nothing, until SIGTERM."""
    async with asyncpg.create_pool(url, min_size=4, max_size=16) as pool:
        pgqueuer = PgQueuer.from_asyncpg_pool(pool)

        pgqueuer.entrypoint(ENTRYPOINT)(_synthetic)
        await pgqueuer.run(batch_size=_BATCH, max_concurrent_tasks=_AT_ONCE)


async def _synthetic(job: Job) -> None:
    order = json.loads(job.payload or b"{}")
    if "ledger" in order:
        _enter(order["ledger"], f"{job.id} 1 - started\n")


def _enter(ledger: str, line: str) -> None:
    file = os.open(ledger, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


if __name__ == "__main__":
    uvloop.run({"install": install, "work": work}[sys.argv[1]](sys.argv[2]))
