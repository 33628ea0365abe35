"""A load process: creates jobs as its arguments say, and prints what it saw as one line of JSON.

Standard library and the loop only, for the peer's processes run it in an environment of their own.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import uvloop

from bench import work
from bench.work import Creator

NOT_SERVED = 69
"""Exit code of a load process whose way of creating jobs the service does not serve."""

Open = Callable[[str, bool], AbstractAsyncContextManager[Creator]]
"""Connects to an engine at a target; gathers concurrent calls by itself if the flag says so."""


def main(opened: Open) -> None:
    arguments = _parser().parse_args()
    print(json.dumps(uvloop.run(_run(arguments, opened))), flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("way", choices=["unary", "gathered", "bulk", "paced"])
    parser.add_argument("--target", required=True)
    parser.add_argument("--jobs", type=int, required=True)
    parser.add_argument("--callers", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--per-second", type=float, default=1.0)
    parser.add_argument("--marks", type=Path, default=Path("marks"))
    return parser


async def _run(arguments: argparse.Namespace, opened: Open) -> dict[str, object]:
    """Return the start of creating (Unix time), its length, this process's CPU time and the latencies."""
    async with opened(arguments.target, arguments.way == "gathered") as creator:
        start_time, start, cpu = time.time(), time.perf_counter(), time.process_time()
        latencies: object = {}
        match arguments.way:
            case "bulk":
                await work.in_bulk(creator, jobs=arguments.jobs, batch=arguments.batch)
            case "paced":
                latencies = await work.paced(
                    creator, jobs=arguments.jobs, per_second=arguments.per_second, marks=arguments.marks
                )
            case _:
                await work.one_by_one(creator, jobs=arguments.jobs, callers=arguments.callers)
        return {
            "start_time": start_time,
            "create_seconds": time.perf_counter() - start,
            "cpu_seconds": time.process_time() - cpu,
            "latencies": latencies,
        }
