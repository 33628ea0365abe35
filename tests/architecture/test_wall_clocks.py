"""Who reads the time of day of the machine that it runs on; all other decisions are the database's."""

from __future__ import annotations

import re

from tests.architecture.source import modules

PACKAGES = ("job_api", "job_worker", "shared")
READS = re.compile(
    r"\b(?:datetime|date)\.(?:now|utcnow|today)\(|\btime\.(?:time|time_ns|gmtime|localtime|ctime)\("
    r"|\b\w*[cC]lock(?:\(\))?\.now\(|\bfrom time import\b"
)
ALLOWED = {
    "shared/runtime/clock.py": "the one clock module",
    "shared/runtime/ids.py": "ids that sort about by time; nothing is concluded from them",
    "job_api/command/show.py": "when a screen was drawn, for people",
    "shared/command/dev.py": "the end of a token that it signs for its own executors",
    "shared/command/token.py": "the end of a token that a person asks for",
}
SQL_TIME = re.compile(
    r"\b(?:now\(\)|clock_timestamp\(|statement_timestamp\(|current_timestamp|localtimestamp|sa\.func\.now)",
    re.IGNORECASE,
)
SQL_TIME_SOURCE = "shared/storage/migrations/versions/m0001_jobs.py"


def product() -> dict[str, str]:
    return {str(each): each.text for each in modules() if str(each).partition("/")[0] in PACKAGES}


def test_nobody_else_asks_the_machine_for_the_time_of_day() -> None:
    assert {place for place, text in product().items() if READS.search(text)} == set(ALLOWED)


def test_statements_ask_one_function_for_the_time() -> None:
    asking = {
        place
        for place, text in product().items()
        if place.startswith(("shared/storage/", "job_worker/projectors/")) and SQL_TIME.search(text)
    }
    assert asking == {SQL_TIME_SOURCE}


def test_another_reader_would_be_seen() -> None:
    for reading in (
        "datetime.now(UTC)",
        "time.time()",
        "time.time_ns()",
        "self._clock.now()",
        "SystemClock().now()",
    ):
        assert READS.search(reading), reading
    for reading in ("time.monotonic()", "await clock.sleep(wait)", "loop.time()", "engine_time()"):
        assert not READS.search(reading), reading
