"""What `baton dev` calls ready can do work."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncpg
import pytest

from verification.stage import stack


async def count(database_url: str, statement: str) -> int:
    connection = await asyncpg.connect(database_url, ssl=False)
    try:
        number: int = await connection.fetchval(statement)
        return number
    finally:
        await connection.close()


def test_a_stack_is_ready_once_every_executor_has_a_session(tmp_path: Path) -> None:
    directory = tmp_path / "stack"
    directory.mkdir()
    (directory / "executor-1.ready").touch()  # left by one that was killed
    with stack.running(directory, executors=2) as engine:
        sessions = asyncio.run(count(engine.database_url, "select count(*) from executor_sessions"))
    assert sessions == 2
    assert list(directory.glob("*.ready")) == []


SECRET = "a secret of this test, at least 32 bytes"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"BATON_SERVE_QUEUES": "no_such_queue"}, r"executor-1: .*no_such_queue"),
        (
            {"BATON_JOB_MODULES": "tests.support.projected_jobs"},
            r"executor-1: job type 'projected' has no handler",
        ),
        ({"BATON_TOKEN_SECRET": SECRET, "BATON_TOKEN": "wrong"}, r"executor-1: .* refuses this executor"),
        ({"BATON_TOKEN_KEYS_FILE": "keys.json"}, r"BATON_TOKEN is needed"),
        ({"BATON_TOKEN_SECRET": "hunter2"}, r"up:\nbaton: BATON_TOKEN_SECRET is too short[^\n]*\n$"),
    ],
    ids=[
        "unknown queue",
        "no handlers",
        "wrong token",
        "no token, and nothing to sign one with",
        "a short secret",
    ],
)
def test_a_stack_whose_executor_cannot_start_says_why_instead(
    tmp_path: Path, settings: dict[str, str], sentence: str
) -> None:
    with (
        pytest.raises(AssertionError, match=sentence),
        stack.running(tmp_path / "stack", environment={**stack.SHORT_TIMES, **settings}),
    ):
        pass


def test_a_stack_with_a_secret_signs_its_executors_token_and_says_that_callers_need_one(
    tmp_path: Path,
) -> None:
    settings = {**stack.SHORT_TIMES, "BATON_TOKEN_SECRET": SECRET}
    with stack.running(tmp_path / "stack", environment=settings) as engine:
        sessions = asyncio.run(count(engine.database_url, "select count(*) from executor_sessions"))
    assert sessions == 1
    assert "callers need a token" in engine.output
