"""Two statements' modules write the state of a job; nothing else in the source does."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
WRITERS = {"shared/storage/claim_statement.py", "shared/storage/state_statements.py"}
UPDATE_OF_JOBS = re.compile(r"update\s+jobs\b.*?(?=\"\"\"|$)", re.IGNORECASE | re.DOTALL)
SETS_STATE = re.compile(r"\bset\b(?:(?!\bwhere\b|\bfrom\b).)*?\bstate\s*=", re.IGNORECASE | re.DOTALL)
CORE_UPDATE = re.compile(r"(?:sa\.)?update\(\s*(?:tables\.)?_?jobs\s*\)", re.IGNORECASE)
STATE_IN_INSERT = re.compile(r"insert\s+into\s+jobs\s*\([^)]*\bstate\b", re.IGNORECASE)


def writes_state(source: str) -> bool:
    updates = UPDATE_OF_JOBS.findall(source)
    return (
        any(SETS_STATE.search(each) for each in updates)
        or bool(CORE_UPDATE.search(source))
        or bool(STATE_IN_INSERT.search(source))
    )


def test_only_the_state_statements_write_the_state() -> None:
    sources = [
        path
        for package in ("shared", "job_api", "job_worker")
        for path in (ROOT / package).rglob("*.py")
        if "migrations" not in path.parts
    ]
    assert len(sources) > 50
    writers = {str(path.relative_to(ROOT)) for path in sources if writes_state(path.read_text())}
    assert writers == WRITERS


def test_a_second_writer_would_be_seen() -> None:
    assert writes_state("update jobs j set attempt = 1, state = 'FAILED' where true")
    assert writes_state("sa.update(tables.jobs).values(state=x)")
    assert writes_state("insert into jobs (job_id, state) values (1, 'FAILED')")
    assert not writes_state("update jobs j set cancel_seen_time = now() where j.state = 'RUNNING'")
