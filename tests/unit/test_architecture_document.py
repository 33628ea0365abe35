"""docs/architecture.md tells of the loops that there are, with their timetables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from job_api.settings import LoopSettings, WatchSettings
from job_worker.sessions.demand import DEMAND_INTERVAL
from job_worker.settings import SessionSettings
from shared.domain.leases import PULSE_INTERVAL

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
LOOPS, WATCH = LoopSettings(), WatchSettings()
SECONDS = {
    "outbox dispatcher": LOOPS.dispatch_seconds,
    "dispatch sweep": LOOPS.sweep_seconds,
    "lease reaper": LOOPS.reaper_seconds,
    "start-by sweep": LOOPS.start_by_seconds,
    "event dispatcher": LOOPS.events_seconds,
    "retention": LOOPS.retention_seconds,
    "job poll": WATCH.poll_seconds,
    "job feed": WATCH.poll_seconds,
    "database probe": LOOPS.probe_seconds,
    "heartbeats": SessionSettings().heartbeat_flush_seconds,
    "demand": DEMAND_INTERVAL.total_seconds(),
    "pulse": PULSE_INTERVAL.total_seconds(),
}


def told(service: str) -> dict[str, str]:
    """Return what the table of a service's loops says of when each comes back."""
    _, _, rest = PAGE.partition(f"\n| loop, in `{service}` |")
    rows = [line.strip("|").split("|") for line in rest.partition("\n\n")[0].splitlines()[2:]]
    return {name.strip(): back.strip() for name, back, _ in rows}


def started(service: str) -> set[str]:
    """Return the names of the loops that a service starts, with spaces between their words."""
    source = (ROOT / service / "app.py").read_text()
    return {name.strip("-").replace("-", " ") for name in re.findall(r'_loop\(\s*f?"([a-z-]+)', source)}


@pytest.mark.parametrize("service", ["job_api", "job_worker"])
def test_every_loop_of_a_service_is_in_its_table_and_no_other(service: str) -> None:
    assert {name.replace("-", " ") for name in told(service)} == started(service)


@pytest.mark.parametrize("name", SECONDS)
def test_the_tables_say_when_loops_come_back(name: str) -> None:
    back = {**told("job_api"), **told("job_worker")}[name]

    assert back.partition(" s")[0] == f"{SECONDS[name]:g}"
