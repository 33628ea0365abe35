"""No input and no output leaves the database: not in a log line, not by Redis, not in an outbox payload."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest
from redis import Redis

from job_api.client import BatonError, Client, JobState
from verification.stage import stack

SECRET = "hush-7f3a9c"
OWNER = "owner-5d1e2b"
SETTINGS = {
    **stack.SHORT_TIMES,
    "BATON_JOB_MODULES": "tests.support.secret_jobs",
    "BATON_LOG_LEVEL": "debug",
}
ENDS = {
    "answer": JobState.SUCCEEDED,
    "crash": JobState.FAILED,
    "fail": JobState.FAILED,
    "misfit": JobState.FAILED,
    "nonsense": JobState.FAILED,
    "raise": JobState.FAILED,
    "violate": JobState.FAILED,
    "misread": JobState.FAILED,
}
_KEEP_PAYLOADS = """
create table seen (payload text);
create function keep_payload() returns trigger language plpgsql as $$
begin
    insert into seen values (new.payload::text || new.dedupe_key || new.last_error_message);
    return new;
end $$;
create trigger keep_payload after insert or update on outbox for each row execute function keep_payload();
"""


async def query(database_url: str, statement: str) -> list[str]:
    connection = await asyncpg.connect(database_url, ssl=False)
    try:
        return [str(row[0]) for row in await connection.fetch(statement)]
    finally:
        await connection.close()


async def keep_payloads(database_url: str) -> None:
    """Have the database remember every payload that the outbox ever had."""
    connection = await asyncpg.connect(database_url, ssl=False)
    try:
        await connection.execute(_KEEP_PAYLOADS)
    finally:
        await connection.close()


@contextmanager
def overheard(redis_url: str) -> Iterator[list[str]]:
    """Collect every command that Redis gets, those of scripts included."""
    commands: list[str] = []
    with Redis.from_url(redis_url, protocol=2) as redis, redis.monitor() as monitor:

        def listen() -> None:
            for each in monitor.listen():
                commands.append(each["command"])
                if "ENOUGH" in each["command"]:
                    return

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        yield commands
        redis.echo("ENOUGH")
        listener.join(timeout=10)
        assert not listener.is_alive()


def run_errands(client: Client) -> None:
    """Bring secrets everywhere where a caller can bring them, and wait until all is over."""
    jobs = {
        do: client.create_job("errand", {"secret": SECRET, "do": do}, owner=OWNER, labels={"kind": "test"})
        for do in ENDS
    }
    for bad in ({"secret": SECRET, SECRET: 1}, {"secret": [SECRET]}, {"do": SECRET}, SECRET):
        with pytest.raises(BatonError):
            client.create_job("errand", json.dumps(bad).encode())
    for do, job in jobs.items():
        for _ in client.watch(job.job_id):
            pass
        ended = client.get(job.job_id)
        assert ended.state is ENDS[do], (do, ended)
    assert client.output(jobs["answer"].job_id)["secret"] == SECRET
    later = client.create_job(
        "errand", {"secret": SECRET}, owner=OWNER, run_time=datetime.now(UTC) + timedelta(hours=1)
    )
    client.cancel(later.job_id)


def test_what_jobs_are_about_stays_in_the_database(tmp_path: Path) -> None:
    with stack.running(tmp_path / "stack", environment=SETTINGS) as engine:
        asyncio.run(keep_payloads(engine.database_url))
        with overheard(engine.redis_url) as commands, Client(engine.control) as client:
            run_errands(client)
        payloads = asyncio.run(query(engine.database_url, "select payload from seen"))
        logs = {path.name: path.read_text(errors="replace") for path in engine.directory.glob("logs/*.log")}
        output = engine.output

    assert any("XADD" in each.upper() for each in commands)
    assert [each for each in commands if SECRET in each or OWNER in each] == []
    assert any("job.succeeded" in each for each in payloads)
    assert [each for each in payloads if SECRET in each or OWNER in each] == []
    assert {"api.log", "worker.log", "executor-1.log", "postgres.log", "valkey.log"} <= logs.keys()
    for name, text in {**logs, "baton dev": output}.items():
        assert [line for line in text.splitlines() if SECRET in line] == [], name
