"""Case 5, for who has other jobs or fewer scopes: what is not theirs is not there, and not theirs to do."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any

from shared.gen.baton.v1 import job_control_pb2 as pb
from verification.cases import views
from verification.cases.keyed_calls import refused
from verification.peers.executor import ScriptedExecutor
from verification.stage import tokens
from verification.stage.stage import Stage
from verification.unmet import require

_CALLER = (tokens.READ, tokens.WRITE)


async def jobs_of_others_do_not_exist(stage: Stage) -> None:
    """Who may read and write can't see or cancel another owner's job, nor act for its owner."""
    job = await stage.control.create(stage.work())
    before = await views.row(stage, job.job_id)
    async with stage.calling(subject="stranger", scopes=_CALLER) as stranger:
        calls = {
            "GetJob": pb.GetJobRequest(job_id=job.job_id),
            "GetJobOutput": pb.GetJobOutputRequest(job_id=job.job_id),
            "ListAttempts": pb.ListAttemptsRequest(job_id=job.job_id),
            "ListArtifacts": pb.ListArtifactsRequest(job_id=job.job_id),
            "CancelJob": pb.CancelJobRequest(job_id=job.job_id),
        }
        for method, request in calls.items():
            await _require_refused(method, stranger.call(method, request), "JOB_NOT_FOUND")
        await _require_refused("WatchJob", stranger.watch_to_end(job.job_id), "JOB_NOT_FOUND")
        page = await stranger.call("ListJobs", pb.ListJobsRequest())
        seen = [each.job_id for each in page.jobs]
        require(job.job_id not in seen, f"ListJobs shows a stranger another owner's job among {len(seen)}")
        request = pb.ListJobsRequest(filter=pb.JobFilter(owner=stage.owner))
        await _require_refused("ListJobs", stranger.call("ListJobs", request), "PERMISSION_DENIED")
        acting = stage.control.creation(stage.work(), owner=stage.owner)
        await _require_refused("CreateJob", stranger.call("CreateJob", acting), "PERMISSION_DENIED")
    after = await views.row(stage, job.job_id)
    changed = [name for name in before if before[name] != after[name]]
    require(not changed, f"a stranger's calls changed {changed} of another owner's job")


async def scopes_are_asked_for(stage: Stage) -> None:
    """Who may only read changes nothing, who may not execute gets no session, and nobody does neither."""
    job = await stage.control.create(stage.work())
    changes: Mapping[str, Any] = {
        "CreateJob": stage.control.creation(stage.work()),
        "CreateJobs": pb.CreateJobsRequest(jobs=[stage.control.creation(stage.work())]),
        "CancelJob": pb.CancelJobRequest(job_id=job.job_id),
    }
    async with stage.calling(scopes=(tokens.READ,)) as reader:
        await reader.get(job.job_id)
        for method, request in changes.items():
            await _require_refused(method, reader.call(method, request), "PERMISSION_DENIED")
    async with stage.calling(scopes=(tokens.WRITE,)) as writer:
        await _require_refused("GetJob", writer.get(job.job_id), "PERMISSION_DENIED")
    token = stage.stack.token("caller", _CALLER)
    await _require_no_session(stage, token, "PERMISSION_DENIED")
    await _require_no_session(stage, None, "UNAUTHENTICATED")


async def _require_no_session(stage: Stage, token: str | None, expected: str) -> None:
    async with ScriptedExecutor.connected(stage.stack.execution, name="stranger", token=token) as executor:
        executor.listen()
        status = await executor.until_over()
        require(status.name == expected, f"a session without the scope ended with {status.name}")


async def _require_refused(method: str, call: Awaitable[Any], reason: str) -> None:
    refusal = await refused(call)
    require(refusal.reason == reason, f"{method} of who may not was refused with {refusal}, not {reason}")
