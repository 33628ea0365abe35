"""The table: what was measured, how far it spread, and how it stands to what it must reach."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.figures import Figures, Medians

_Place = tuple[str, str, str]
"""Scenario, engine, metric."""


@dataclass(frozen=True, slots=True)
class _Goal:
    """A ratio that must be reached: of the first figure to the second; at most, where less is better."""

    what: str
    ours: _Place
    theirs: _Place
    ratio: float
    less_is_better: bool = False


_RUN, _RATE = "create_and_run", "jobs_per_s"
_PEER = (_RUN, "pgqueuer", _RATE)
_GOALS = (
    _Goal("create and run, one call each, to pgqueuer", (_RUN, "baton_unary", _RATE), _PEER, 1.5),
    _Goal(
        "create and run, one call each, to the raw echo",
        (_RUN, "baton_unary", _RATE),
        ("unary_echo", "grpc_aio", "calls_per_s"),
        0.5,
    ),
    _Goal("create and run, gathered, to pgqueuer's calls", (_RUN, "baton_gathered", _RATE), _PEER, 3.0),
    _Goal("create and run, in bulk", (_RUN, "baton_bulk", _RATE), (_RUN, "pgqueuer_bulk", _RATE), 0.5),
    _Goal("drain", ("drain", "baton", _RATE), ("drain", "pgqueuer", _RATE), 0.5),
    *(
        _Goal(
            f"{what} {each}",
            ("latency", "baton", f"{name}_{each}"),
            ("latency", "pgqueuer", f"{name}_{each}"),
            1.0,
            True,
        )
        for what, name, each in (
            ("create call", "call_ms", "p50"),
            ("create to start", "start_ms", "p50"),
            ("create to start", "start_ms", "p99"),
        )
    ),
)
_HEADLINES = ("jobs_per_s", "calls_per_s", "call_ms_p50", "call_ms_p99", "start_ms_p50", "start_ms_p99")
_CPU = "cpu_us_per_job_"
_DATABASE = ("statements_per_job", "transactions_per_job", "buffers_per_job", "wal_bytes_per_job")


def markdown(figures: Figures, machine: Mapping[str, object], *, rounds: int) -> str:
    """Return the whole report."""
    medians = figures.medians()
    parts = [
        "# Measured",
        f"Medians of {rounds} alternating rounds, [lowest to highest]; p99 are of all rounds together.",
        _table(("scenario", "engine", "metric", "median", "spread"), _headlines(figures, medians)),
        "## Processor time for each job, µs",
        _costs_table(medians, _CPU),
        "## The database's work for each job",
        _table(("scenario", "engine", *_DATABASE), _rows_of(medians, _DATABASE)),
        "## What it must reach",
        _table(("ratio", "measured", "wanted", ""), map(_goal_row, _goals_measured(medians))),
        *_not_served(figures),
        "## Machine",
        "\n".join(f"- {name}: {value}" for name, value in machine.items()),
        f"- processors used by others, most in any run: {_most_noise(figures):.2f}",
    ]
    return "\n\n".join(parts) + "\n"


def _headlines(figures: Figures, medians: Medians) -> Iterator[Sequence[str]]:
    for scenario, engines in medians.items():
        for engine, metrics in engines.items():
            for metric in _HEADLINES:
                if metric in metrics:
                    values = figures.values(scenario, engine, metric)
                    spread = f"{_number(min(values))} to {_number(max(values))}"
                    yield scenario, engine, metric, _number(metrics[metric]), spread


def _costs_table(medians: Medians, prefix: str) -> str:
    parts = sorted(
        {
            metric.removeprefix(prefix)
            for engines in medians.values()
            for metrics in engines.values()
            for metric in metrics
            if metric.startswith(prefix)
        }
    )
    names = ["cpu_us_per_job", *(f"{prefix}{each}" for each in parts)]
    return _table(("scenario", "engine", "all", *parts), _rows_of(medians, names))


def _rows_of(medians: Medians, names: Sequence[str]) -> Iterator[Sequence[str]]:
    for scenario, engines in medians.items():
        for engine, metrics in engines.items():
            if any(name in metrics for name in names):
                yield scenario, engine, *(_number(metrics[name]) if name in metrics else "" for name in names)


def _goals_measured(medians: Medians) -> Iterator[tuple[_Goal, float | None]]:
    for goal in _GOALS:
        ours, theirs = (_found(medians, place) for place in (goal.ours, goal.theirs))
        yield goal, ours / theirs if ours is not None and theirs else None


def _goal_row(measured: tuple[_Goal, float | None]) -> Sequence[str]:
    goal, ratio = measured
    wanted = f"{'at most' if goal.less_is_better else 'at least'} {goal.ratio:g}"
    if ratio is None:
        return goal.what, "not measured", wanted, ""
    reached = ratio <= goal.ratio if goal.less_is_better else ratio >= goal.ratio
    return goal.what, f"{ratio:.2f}", wanted, "reached" if reached else "missed"


def _found(medians: Medians, place: _Place) -> float | None:
    scenario, engine, metric = place
    return medians.get(scenario, {}).get(engine, {}).get(metric)


def _not_served(figures: Figures) -> Iterator[str]:
    if figures.not_served:
        yield "## Not measured"
        yield "\n".join(f"- {name}: {why}" for name, why in figures.not_served.items())


def _most_noise(figures: Figures) -> float:
    return max(
        (
            each.get("others_cores", 0.0)
            for engines in figures.rounds.values()
            for rounds in engines.values()
            for each in rounds
        ),
        default=0.0,
    )


def _table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"  # noqa: PLR2004 - where digits say nothing
