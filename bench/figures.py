"""Figures of all rounds, and what is made of them: medians, spread, and pooled percentiles."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench.scenarios import Metrics, median, percentile

Medians = dict[str, dict[str, dict[str, float]]]


@dataclass(slots=True)
class Figures:
    """What was measured so far, by scenario and engine.

    Attributes:
        rounds: Every value of every metric, in the order of the rounds.
        not_served: What an engine does not serve, or did not bring to an end, and why.
        latencies: Milliseconds of single jobs over all rounds, by engine and kind.
        dearest: The statements that took most of the database's time, of the last round.
    """

    rounds: dict[str, dict[str, list[Metrics]]] = field(default_factory=lambda: defaultdict(dict))
    not_served: dict[str, str] = field(default_factory=dict)
    latencies: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    dearest: dict[str, Sequence[Mapping[str, object]]] = field(default_factory=dict)

    def add(self, scenario: str, engine: str, metrics: Metrics) -> None:
        self.rounds[scenario].setdefault(engine, []).append(metrics)

    def add_latencies(self, engine: str, latencies: Mapping[str, Sequence[float]]) -> None:
        for kind, values in latencies.items():
            self.latencies.setdefault(engine, {}).setdefault(kind, []).extend(values)

    def values(self, scenario: str, engine: str, metric: str) -> Sequence[float]:
        """Return a metric's value in each round; empty if there is none."""
        rounds = self.rounds.get(scenario, {}).get(engine, [])
        return [each[metric] for each in rounds if metric in each]

    def medians(self) -> Medians:
        """Return `{scenario: {engine: {metric: median}}}`; p99 are those of all rounds together."""
        result: Medians = {
            scenario: {
                engine: {
                    metric: round(median(self.values(scenario, engine, metric)), 3)
                    for metric in dict.fromkeys(name for each in rounds for name in each)
                }
                for engine, rounds in engines.items()
            }
            for scenario, engines in self.rounds.items()
        }
        for engine, kinds in self.latencies.items():
            for kind, values in kinds.items():
                result["latency"][engine][f"{kind}_ms_p99"] = round(percentile(values, 0.99), 3)
        return result
