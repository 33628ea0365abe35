"""Case 10, when nothing is killed: what waits is in Postgres, and is worked off in turn."""

from __future__ import annotations

from shared.gen.baton.v1 import job_control_pb2 as pb
from verification.evidence.samples import Backlog
from verification.invariants.memory import MARK_MIN
from verification.stage.stage import Stage

OWNERS = ("a", "b", "c")
JOBS_PER_OWNER = 1_000
AT_ONCE = 2
"""Leases of the one executor, so that little is under way beside the order of turns."""
SLACK = 2 * MARK_MIN + AT_ONCE
"""The head as it was before the last job came, what it grows by while work is quick, what is under way."""

_PRIORITIES = (40, 69)
"""Those of one stream: bands are served beside each other."""
_TOGETHER = 50
_SAMPLE_SECONDS = 20.0
_SECONDS = 240.0


async def a_long_backlog(stage: Stage) -> None:
    """A backlog of three owners waits outside of Redis, and their jobs take turns when an executor comes."""
    job_ids: list[str] = []
    for owner in OWNERS:
        job_ids += await _create(stage, owner, stage.scaled(JOBS_PER_OWNER, at_least=100))
    seen = len(stage.samples.samples)
    await stage.until(
        lambda: len(stage.samples.samples) > seen, seconds=_SAMPLE_SECONDS, what="a look at the backlog"
    )
    stage.notes["backlog"] = len(job_ids)
    stage.notes["entries in Redis"] = sum(stage.samples.samples[-1].entries.values())
    stage.samples.backlogs.append(Backlog(job_ids, SLACK))
    await stage.executors.start("a", queues__drill__at_once=AT_ONCE)
    await stage.until_ended(seconds=_SECONDS)


async def _create(stage: Stage, owner: str, count: int) -> list[str]:
    """Create jobs of random urgency, and return their ids, oldest first."""
    job_ids: list[str] = []
    while len(job_ids) < count:
        requests = [_request(stage, owner) for _ in range(min(_TOGETHER, count - len(job_ids)))]
        answer = await stage.control.insist("CreateJobs", pb.CreateJobsRequest(jobs=requests))
        job_ids += [each.created.job.job_id for each in answer.outcomes]
    return job_ids


def _request(stage: Stage, owner: str) -> pb.CreateJobRequest:
    priority = stage.random.randint(*_PRIORITIES)
    return stage.control.creation(stage.work(), owner=owner, overrides=pb.JobOverrides(priority=priority))
