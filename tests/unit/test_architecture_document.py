"""docs/architecture.md tells of the loops that there are, with their timetables."""

from __future__ import annotations

import re
from pathlib import Path

from job_api.settings import LoopSettings, WatchSettings

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
}


def told(service: str) -> dict[str, str]:
    """Return what the table of a service's loops says of when each comes back."""
    _, _, rest = PAGE.partition(f"\n| loop, in `{service}` |")
    rows = [line.strip("|").split("|") for line in rest.partition("\n\n")[0].splitlines()[2:]]
    return {name.strip(): back.strip() for name, back, _ in rows}


def started(service: str) -> set[str]:
    """Return the names of the loops that a service starts, with spaces between their words."""
    source = (ROOT / service / "app.py").read_text()
    return {name.replace("-", " ") for name in re.findall(r'_loop\(\s*f?"([a-z-]+)', source)}


def test_every_loop_of_job_control_is_in_the_table_and_no_other() -> None:
    assert {name.replace("-", " ") for name in told("job_api")} == started("job_api")


def test_the_table_says_when_the_loops_of_job_control_come_back() -> None:
    seconds = {name: back.partition(" s")[0] for name, back in told("job_api").items() if name in SECONDS}

    assert seconds == {name: f"{value:g}" for name, value in SECONDS.items()}
