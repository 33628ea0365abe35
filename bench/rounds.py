"""Runs the rounds: in each, every engine once through every scenario, on servers and data of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench import echo, processor_time, scenarios
from bench.engine import Engine, Stack, Way
from bench.figures import Figures
from bench.scenarios import Metrics, NotDone, NotServed

_QUIET_CORES = 0.3
_QUIET_SECONDS_MAX = 10.0
_LOOK_SECONDS = 0.5
_DISTURBED_CORES = 0.45
_REPEAT_SECONDS_MAX = 90.0
"""For all runs together that are repeated because others disturbed them."""
_BULK_PROBE_JOBS = 2_000
_PROBE_JOBS = 500
_ECHO = "unary_echo"


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured.

    Attributes:
        seconds: How long one run of a throughput scenario is to take, roughly.
        latency_jobs: Jobs for latencies in each round.
        scenarios: Names of what is measured.
    """

    rounds: int = 3
    seconds: float = 6.0
    latency_jobs: int = 340
    scenarios: tuple[str, ...] = (_ECHO, "create_and_run", "drain", "latency")


@dataclass(slots=True)
class Rounds:
    """Measures engines by turns; which one goes first alternates.

    Attributes:
        directory: For servers' data; emptied by whoever owns it.
        rates: Jobs per second of the last run of an engine's way or scenario, to size the next one.
    """

    engines: Sequence[Engine]
    plan: Plan
    directory: Path
    figures: Figures = field(default_factory=Figures)
    rates: dict[str, float] = field(default_factory=dict)
    _repeat_seconds: float = _REPEAT_SECONDS_MAX
    _begin: float = field(default_factory=time.monotonic)

    async def run(self) -> Figures:
        for number in range(self.plan.rounds):
            self._say(f"round {number + 1} of {self.plan.rounds}")
            if _ECHO in self.plan.scenarios:
                await self._echo()
            engines = self.engines if number % 2 == 0 else list(reversed(self.engines))
            for engine in engines:
                directory = self.directory / f"{engine.name}-{number + 1}"
                directory.mkdir()
                async with engine.running(directory) as stack:
                    await self._measure(engine, stack)
        return self.figures

    async def _echo(self) -> None:
        await self._quiet()
        rate = await echo.calls_per_second(self.plan.seconds / 2)
        self._keep(_ECHO, "grpc_aio", {"calls_per_s": rate})

    async def _measure(self, engine: Engine, stack: Stack) -> None:
        await stack.start_executor()
        await scenarios.warm_up(stack, engine)
        if "create_and_run" in self.plan.scenarios:
            for way in engine.ways:
                await self._create_and_run(engine, stack, way)
        if "latency" in self.plan.scenarios:
            await self._latency(engine, stack)
        await stack.stop_executor()
        if "drain" in self.plan.scenarios:
            await self._drain(engine, stack)

    async def _create_and_run(self, engine: Engine, stack: Stack, way: Way) -> None:
        name = (
            engine.name
            if engine.ways == (Way.UNARY, Way.BULK) and way is Way.UNARY
            else f"{engine.name}_{way}"
        )

        async def run() -> Metrics:
            if name not in self.rates:
                probe = _BULK_PROBE_JOBS if way is Way.BULK else _PROBE_JOBS
                self.rates[name] = await scenarios.warm_up(stack, engine, way, probe)
            jobs = scenarios.jobs_for(self.plan.seconds, self.rates[name])
            metrics = await scenarios.create_and_run(stack, engine, way, jobs)
            self.rates[name] = metrics["jobs_per_s"]
            return metrics

        await self._attempt("create_and_run", name, stack, run)

    async def _drain(self, engine: Engine, stack: Stack) -> None:
        async def run() -> Metrics:
            fastest = max(rate for name, rate in self.rates.items() if name.startswith(engine.name))
            return await scenarios.drain(stack, engine, scenarios.jobs_for(self.plan.seconds, fastest))

        self.rates.setdefault(engine.name, 0.0)
        await self._attempt("drain", engine.name, stack, run)

    async def _latency(self, engine: Engine, stack: Stack) -> None:
        latencies: Mapping[str, Sequence[float]] = {}

        async def run() -> Metrics:
            nonlocal latencies
            metrics, latencies = await scenarios.latency(stack, engine, self.plan.latency_jobs)
            return metrics

        await self._attempt("latency", engine.name, stack, run)
        self.figures.add_latencies(engine.name, latencies)

    async def _attempt(
        self, scenario: str, name: str, stack: Stack, run: Callable[[], Awaitable[Metrics]]
    ) -> None:
        """Measure, and keep the figures; keep the reason where there is none."""
        try:
            metrics = await self._undisturbed(run)
        except (NotServed, NotDone) as reason:
            self.figures.not_served[f"{scenario} {name}"] = str(reason)
            self._say(f"  {scenario} {name}: {reason}")
            return
        self.figures.dearest[f"{scenario} {name}"] = await stack.database.dearest_statements()
        self._keep(scenario, name, metrics)

    async def _undisturbed(self, run: Callable[[], Awaitable[Metrics]]) -> Metrics:
        """Run once more if others took much of the processors meanwhile, within what is left for repeats."""
        await self._quiet()
        start = time.monotonic()
        metrics = await run()
        taken = time.monotonic() - start
        if metrics["others_cores"] <= _DISTURBED_CORES or taken > self._repeat_seconds:
            return metrics
        self._repeat_seconds -= taken
        self._say(f"  others used {metrics['others_cores']:.2f} cores; once more")
        await self._quiet()
        return await run()

    def _keep(self, scenario: str, name: str, metrics: Metrics) -> None:
        self.figures.add(scenario, name, metrics)
        told = (
            "jobs",
            "jobs_per_s",
            "calls_per_s",
            "call_ms_p50",
            "start_ms_p50",
            "start_ms_p99",
            "others_cores",
        )
        words = ", ".join(f"{each} {metrics[each]:,.4g}" for each in told if each in metrics)
        self._say(f"  {scenario} {name}: {words}")

    async def _quiet(self) -> None:
        """Wait until others leave the processors alone, but not for long: a disturbed run shows its noise."""
        deadline = time.monotonic() + _QUIET_SECONDS_MAX
        while time.monotonic() < deadline:
            before = processor_time.read({})
            await asyncio.sleep(_LOOK_SECONDS)
            if processor_time.others_cores(before, processor_time.read({})) <= _QUIET_CORES:
                return

    def _say(self, line: str) -> None:
        print(f"{time.monotonic() - self._begin:5.0f} s  {line}", flush=True)
