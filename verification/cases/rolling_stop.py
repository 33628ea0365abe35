"""Case 7: a rolling update of executors and services under load costs no job anything."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from signal import SIGTERM
from types import MappingProxyType

from verification.cases import views
from verification.cases.case import Case
from verification.evidence import tables
from verification.evidence.ledger import FINISHED, STARTED
from verification.evidence.tables import LABEL
from verification.stage.executors import Executor
from verification.stage.meanwhile import meanwhile
from verification.stage.stage import HEARTBEAT_SECONDS, LOST_AFTER_SECONDS, Stage
from verification.unmet import require

_AT_ONCE = 4
_EXECUTORS = ("a", "b", "c", "d")
_OPEN_JOBS = 2 * _AT_ONCE * len(_EXECUTORS)
"""More than run at a time, so that leases are on their way at any moment."""
_LONG_SECONDS = LOST_AFTER_SECONDS + 3 * HEARTBEAT_SECONDS
"""An executor that stops its heartbeats with the signal loses the lease of such a job."""
_SHORT_SECONDS = (0.1, 1.0)
_LONG_SHARE = 0.25
_LONG = "long"
_EXECUTOR_GRACE_SECONDS = 25.0
_GRACE_SECONDS: Mapping[str, float] = MappingProxyType({"worker": 15.0, "api": 10.0})
"""As services are set up by default."""
_EXIT_SECONDS = 5.0
"""From the end of the grace period to that of the process, on a machine that is busy with others."""
_WAIT_SECONDS = 60.0
_POLL_SECONDS = 0.1
_TURNS = 3
_COSTS_NOTHING = {"succeeded", "given_back"}
_BEGUN_LONG = f"""
select count(*) from leases l join jobs j using (job_id)
where l.executor_name = $1 and l.accepted and j.labels @> jsonb_build_object('{LABEL}', $2::text)
    and j.labels ? '{_LONG}' and l.grant_time > clock_timestamp() - interval '1 second'
"""


async def executors_in_turn(stage: Stage) -> None:
    """Executors that are told to stop one after the other finish their jobs, and cost nobody anything."""
    old = await stage.executors.start_all(*_EXECUTORS, queues__drill__at_once=_AT_ONCE)
    stops: list[asyncio.Task[None]] = []
    async with meanwhile(_create(stage)):
        for each in old:
            await _until_begun_long(stage, each)
            stops.append(stage.beside(_stopped(stage, each)))
            await stage.executors.start(f"{each.name}-new", queues__drill__at_once=_AT_ONCE)
        await asyncio.gather(*stops)
    await stage.settle()
    await _require_undisturbed(stage)


async def crossing_leases_go_back(stage: Stage) -> None:
    """Leases that an executor gets after the signal go back unstarted, and cost nothing."""
    crossed: list[str] = []
    for turn in range(_TURNS):
        crossed += await _stop_while_leases_come(stage, f"a-{turn}")
    await stage.settle()
    await _require_undisturbed(stage)
    stage.notes["leases_that_crossed"] = len(crossed)
    require(crossed, f"in {_TURNS} turns no lease crossed the signal")


async def services_in_turn(stage: Stage) -> None:
    """Services that are told to stop one after the other end well and in time, and nobody loses a lease."""
    await stage.executors.start_all(*_EXECUTORS, queues__drill__at_once=_AT_ONCE, reconnect_seconds_max=0.5)
    watched = await stage.control.create(stage.work(duration_seconds=4 * LOST_AFTER_SECONDS))
    watching = stage.beside(stage.control.watch_to_end(watched.job_id))
    async with meanwhile(_create(stage)):
        for name in ("worker", "api"):
            await _until_running(stage)
            await _require_clean_end(stage, name)
    await stage.settle()
    numbers = [each.event.number for each in await watching if each.HasField("event")]
    job = await views.require_agreement(stage, watched.job_id)
    expected = list(range(1, job.last_event_number + 1))
    require(numbers == expected, f"a watcher saw the events {numbers}, not {expected}")
    await _require_undisturbed(stage)


async def _create(stage: Stage) -> None:
    """Keep jobs waiting, most of them short."""
    created = 0
    while True:
        finished = sum(each.phase == FINISHED for each in stage.ledger.entries())
        for _ in range(_OPEN_JOBS - (created - finished)):
            long = stage.random.random() < _LONG_SHARE
            seconds = _LONG_SECONDS if long else stage.random.uniform(*_SHORT_SECONDS)
            labels = {LABEL: stage.run, **({_LONG: "yes"} if long else {})}
            await stage.control.create(stage.work(duration_seconds=seconds), labels=labels)
            created += 1
        await asyncio.sleep(_POLL_SECONDS)


async def _until_begun_long(stage: Stage, executor: Executor) -> None:
    """Wait until an executor has just begun a job that outlasts its lease, were it not for heartbeats."""
    await stage.until_value(
        _BEGUN_LONG,
        executor.name,
        stage.run,
        holds=bool,
        seconds=_WAIT_SECONDS,
        what=f"executor {executor.name} to begin a long job",
    )


async def _stop_while_leases_come(stage: Stage, name: str) -> list[str]:
    """Have an executor find the signal and leases at one moment; return the jobs that it gave back."""
    executor = await stage.executors.start(name, queues__drill__at_once=_AT_ONCE)
    executor.pause()
    jobs = [(await stage.control.create(stage.work())).job_id for _ in range(_AT_ONCE)]
    await stage.until_value(
        "select count(*) from leases where executor_name = $1",
        name,
        holds=bool,
        seconds=_WAIT_SECONDS,
        what="leases for an executor that does not read",
    )
    stopping = stage.beside(_stopped(stage, executor))
    await stage.until(lambda: _told_to_stop(stage, name), seconds=_WAIT_SECONDS, what="the signal")
    executor.resume()
    await stopping
    return [job_id for job_id in jobs if "GIVEN_BACK" in await views.outcomes(stage, job_id)]


async def _until_running(stage: Stage) -> None:
    await stage.until_value(
        "select count(*) from leases where accepted",
        holds=lambda count: count >= _AT_ONCE,
        seconds=_WAIT_SECONDS,
        what="jobs to run",
    )


async def _stopped(stage: Stage, executor: Executor) -> None:
    """Tell an executor to stop, and require that it ends in time, with nothing left open."""
    begin = stage.history.now()
    exit_code = await executor.stop()
    took = stage.history.now() - begin
    stage.notes[f"stop_seconds_{executor.name}"] = round(took, 1)
    require(exit_code == 0, f"executor {executor.name} exits with {exit_code}:\n{executor.log[-1_000:]}")
    limit = _EXECUTOR_GRACE_SECONDS + _EXIT_SECONDS
    require(took <= limit, f"executor {executor.name} took {took:.1f} s to stop")
    unanswered = "executor.left_unanswered" in executor.log
    require(not unanswered, f"executor {executor.name} left before all its reports were answered")


def _told_to_stop(stage: Stage, name: str) -> bool:
    return any(each.process == name and each.what == "stopped" for each in stage.history.faults)


async def _require_clean_end(stage: Stage, name: str) -> None:
    """Tell a service to stop, require that it ends in time with exit code 0, and wait for its next life."""
    begin = stage.history.now()
    before = stage.kill(name, SIGTERM)
    await stage.until(
        lambda: stage.stack.life(name).process_id != before.process_id,
        seconds=_WAIT_SECONDS,
        what=f"the {name} to end",
    )
    took = stage.history.now() - begin
    stage.notes[f"stop_seconds_{name}"] = round(took, 1)
    require(took <= _GRACE_SECONDS[name] + _EXIT_SECONDS, f"the {name} took {took:.1f} s to stop")
    await stage.restarted(before)
    code = list(_exit_codes(stage, name))[-1:]
    require(code == ["0"], f"the {name} exits with {code}")


def _exit_codes(stage: Stage, name: str) -> Iterator[str]:
    """Of all lives of a process, first to last, as its supervisor tells them."""
    for line in stage.stack.output.splitlines():
        plain = re.sub(r"\x1b\[[0-9;]*m", "", line)
        if "process.died" in plain and re.search(rf"process\W+{name}\b", plain):
            yield from re.findall(r"exit\W+(-?\d+)", plain)[:1]


async def _require_undisturbed(stage: Stage) -> None:
    """Require that every job succeeded with one start, and that nothing was counted against any."""
    found = await tables.read(stage.stack.database_url, stage.run)
    starts = Counter(each.job_id for each in stage.ledger.entries() if each.phase == STARTED)
    begun = {(each.job_id, each.attempt) for each in stage.ledger.entries() if each.phase == STARTED}
    given_back = 0
    for job_id, rows in found.items():
        require(rows.state == "SUCCEEDED", f"job {job_id} is {rows.state}")
        require(starts[job_id] == 1, f"job {job_id} was started {starts[job_id]} times")
        counted = (rows.job["failures"], rows.job["losses"])
        require(counted == (0, 0), f"job {job_id} has {counted[0]} failures and {counted[1]} losses")
        outcomes = [each["outcome"] for each in rows.attempts]
        require(set(outcomes) <= _COSTS_NOTHING, f"the attempts of job {job_id} ended {outcomes}")
        back = [each["attempt"] for each in rows.attempts if each["outcome"] == "given_back"]
        require(
            not any((job_id, each) in begun for each in back),
            f"an attempt of job {job_id} was begun and then given back, of {back}",
        )
        given_back += len(back)
    stage.notes["jobs"] = len(found)
    stage.notes["given_back"] = given_back


CASE = Case(7, "rolling stop", (executors_in_turn, crossing_leases_go_back, services_in_turn))
