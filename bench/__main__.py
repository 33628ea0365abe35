"""`python -m bench --out DIR`: prints the table, and writes bench.json, bench.md, rounds.json."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bench import machine, report
from bench.baton_engine import BatonEngine
from bench.engine import Engine
from bench.figures import Figures
from bench.pgqueuer_engine import PgqueuerEngine
from bench.rounds import Plan, Rounds


def main() -> None:
    arguments = _parser().parse_args()
    figures, noted = asyncio.run(_measure(arguments))
    text = report.markdown(figures, noted, rounds=arguments.rounds)
    _write(arguments.out, figures, noted, text)
    print(f"\n{text}")


def _parser() -> argparse.ArgumentParser:
    plan = Plan()
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Baton beside pgqueuer.")
    parser.add_argument("--out", type=Path, required=True, help="where the results go")
    parser.add_argument("--peer-python", type=Path, default=Path(".venv-bench/bin/python"))
    parser.add_argument("--rounds", type=int, default=plan.rounds)
    parser.add_argument("--seconds", type=float, default=plan.seconds, help="length of a throughput run")
    parser.add_argument("--latency-jobs", type=int, default=plan.latency_jobs, help="in each round")
    parser.add_argument("--only", nargs="+", choices=plan.scenarios, default=plan.scenarios)
    parser.add_argument("--engines", nargs="+", choices=["baton", "pgqueuer"], default=["baton", "pgqueuer"])
    return parser


async def _measure(arguments: argparse.Namespace) -> tuple[Figures, Mapping[str, object]]:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)  # so that all is taken down
    known: dict[str, Engine] = {
        "baton": BatonEngine(),
        "pgqueuer": PgqueuerEngine(arguments.peer_python),
    }
    plan = Plan(arguments.rounds, arguments.seconds, arguments.latency_jobs, tuple(arguments.only))
    with tempfile.TemporaryDirectory(prefix="baton-bench-") as directory:
        noted = machine.note(Path(directory), arguments.peer_python)
        rounds = Rounds([known[name] for name in arguments.engines], plan, Path(directory))
        return await rounds.run(), noted


def _write(out: Path, figures: Figures, noted: Mapping[str, object], text: str) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / "bench.json").write_text(json.dumps(figures.medians(), indent=2) + "\n")
    (out / "bench.md").write_text(text)
    everything = {
        "machine": noted,
        "not_measured": figures.not_served,
        "rounds": figures.rounds,
        "latencies_ms": figures.latencies,
        "dearest_statements": figures.dearest,
    }
    (out / "rounds.json").write_text(json.dumps(everything, indent=1) + "\n")


if __name__ == "__main__":
    main()
