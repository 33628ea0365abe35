"""What `baton top` looks like, in terminals of all sizes."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from rich.console import Console

from job_api.client import ExecutorView, JobView, PauseView, QueueView
from job_api.client.convert import job_view
from job_api.command.top_board import Board
from job_api.command.top_snapshot import Snapshot
from shared.domain.identity import IncarnationId, JobType, QueueName
from shared.gen.baton.v1 import job_pb2
from tests.support.scripted_control import a_job

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


def a_queue(name: str, **changes: Any) -> QueueView:
    fields: dict[str, Any] = {
        "queue": QueueName(name),
        "group": "",
        "waiting": 0,
        "more_waiting": False,
        "running": 0,
        "oldest_due_age": None,
        "started_last_minute": None,
        "finished_last_minute": 0,
        "executors": 1,
        "credits": None,
        "pause": None,
        "job_type_pauses": {},
    }
    return QueueView(**(fields | changes))


def an_executor(name: str, leases: int = 0, **changes: Any) -> ExecutorView:
    fields: dict[str, Any] = {
        "executor_name": name,
        "incarnation_id": IncarnationId(UUID(int=1)),
        "runtime": "test",
        "job_types": [JobType("synthetic")],
        "leases": leases,
        "credits": None,
        "last_seen_time": NOW,
        "draining": None,
    }
    return ExecutorView(**(fields | changes))


def a_failure(message: str = "no [bold]PDF") -> JobView:
    return job_view(
        a_job(state=job_pb2.JOB_STATE_FAILED, error=job_pb2.JobError(code="INPUT_BROKEN", message=message))
    )


def drawn(snapshot: Snapshot, *, width: int = 120, height: int = 40, note: str = "") -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, markup=False, highlight=False)
    console.print(Board(snapshot, note=note).within(height))
    file = console.file
    assert isinstance(file, io.StringIO)
    return [line.rstrip() for line in file.getvalue().splitlines()]


SNAPSHOT = Snapshot(
    NOW,
    [
        a_queue("drill", waiting=1200, more_waiting=True, running=64, executors=2, credits=5),
        a_queue("idle"),
        a_queue("import", waiting=3, executors=0, oldest_due_age=timedelta(seconds=3725)),
        a_queue("media", finished_last_minute=7, pause=PauseView("ada", NOW, "")),
    ],
    [an_executor("quiet"), an_executor("busy", leases=4, draining=True)],
    [a_failure()],
)


def test_it_begins_with_sums_and_shows_the_busiest_first() -> None:
    lines = drawn(SNAPSHOT)

    assert lines[0].split("   ")[1:] == ["waiting 1203+", "running 64", "finished 7/min", "executors 2"]
    queues = [line.split()[0] for line in lines[lines.index("queues") + 2 : lines.index("executors")]]
    assert queues == ["drill", "import", "media", "idle"]
    assert [lines[lines.index("executors") + row].split()[0] for row in (2, 3)] == ["busy", "quiet"]


def test_it_points_at_what_is_paused_unserved_or_draining() -> None:
    text = "\n".join(drawn(SNAPSHOT))

    assert "1:02:05" in text
    for word in ("nobody serves it", "paused", "draining", "INPUT_BROKEN: no [bold]PDF"):
        assert text.count(word) == 1


def test_starts_are_shown_where_they_are_known() -> None:
    known = Snapshot(NOW, [a_queue("drill", started_last_minute=30), a_queue("other")], [], [])

    assert "started 30/min" in drawn(known)[0]


def test_its_heads_are_whole_in_80_columns_and_figures_that_nobody_knows_have_none() -> None:
    heads = [line.split() for line in drawn(SNAPSHOT, width=80)]

    assert ["queue", "waiting", "running", "oldest", "finished", "served", "credits"] in heads
    assert ["executor", "leases", "last", "seen", "job", "types"] in heads


def test_times_of_its_day_are_shown_without_the_date() -> None:
    yesterday = an_executor("gone", last_seen_time=NOW - timedelta(days=1))
    rows = {line.split()[0]: line for line in drawn(Snapshot(NOW, [], [an_executor("here"), yesterday], []))}

    assert f"{NOW.astimezone():%H:%M:%S}" in rows["here"]
    assert "2030" not in rows["here"]
    assert f"{yesterday.last_seen_time.astimezone():%Y-%m-%d %H:%M:%S}" in rows["gone"]


@pytest.mark.parametrize("height", [12, 16, 24, 50, 200])
def test_it_keeps_to_the_height_and_says_how_much_is_hidden(height: int) -> None:
    full = Snapshot(
        NOW,
        [a_queue(f"q{number:02}") for number in range(40)],
        [an_executor(f"e{number:02}") for number in range(40)],
        [a_failure() for _ in range(20)],
    )
    lines = drawn(full, height=height, note="no news: away")

    assert len(lines) <= height
    assert lines[1] == "no news: away"
    hidden = sum(int(line.split("(")[1].split()[0]) for line in lines if line.endswith("more)"))
    rows = sum(line.startswith(("q0", "q1", "q2", "q3", "e0", "e1", "e2", "e3", "20")) for line in lines)
    rows += sum(line.lstrip().startswith("0197f3f0") for line in lines)
    assert rows + hidden == 100


@pytest.mark.parametrize("width", [20, 40, 80])
def test_it_keeps_to_the_width_however_long_words_are(width: int) -> None:
    wide = Snapshot(
        NOW, [a_queue("q" * 64)], [an_executor("e" * 64)], [a_failure("long " * 100 + "\n and more")]
    )

    assert all(len(line) <= width for line in drawn(wide, width=width))
    assert len(drawn(wide, width=width, height=12)) <= 12


def test_a_long_end_of_a_line_squeezes_nothing_else() -> None:
    many = [JobType(f"type_{number}") for number in range(40)]
    busy = Snapshot(NOW, [], [an_executor("executor-1", leases=7, job_types=many)], [a_failure("x" * 300)])
    text = "\n".join(drawn(busy, width=100))

    assert "executor-1       7" in text
    assert "0197f3f0-0000-7000-8000-000000000001" in text
    assert text.count("…") == 2


def test_a_snapshot_of_nothing_is_drawn_too() -> None:
    assert drawn(Snapshot(NOW, [], [], []))[0].endswith("executors 0")
