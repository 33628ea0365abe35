"""Every effect of a caller leaves one audit record; what has no effect leaves none."""

from __future__ import annotations

from typing import Any

import pytest

from job_api.rpc.job_control_servicer import SCOPES
from shared.domain.audit import AuditAction
from shared.domain.scopes import JOBS_ADMIN, JOBS_WRITE
from shared.gen.baton.v1 import job_control_pb2 as pb
from tests.support.audited_calls import ADA, EFFECTS, Record, Stage, told
from tests.support.control_service import NO_JOB, Control, bearing, refused
from tests.support.selected_jobs import rows

EACH_TIME_ANEW = {"UploadInput"}
"""The same call again has an effect of its own: a document has no key."""
ONLY_SHOWING = {
    "ListEvents",
    "WatchEvents",
    "ListQueues",
    "ListExecutors",
    "ListOutboxMessages",
    "ListAuditRecords",
}
"""Methods for admins that change nothing."""


@pytest.fixture
def stage(guarded_control: Control) -> Stage:
    return Stage(guarded_control)


async def records(control: Control) -> list[Record]:
    """All records, sorted."""
    request = pb.ListAuditRecordsRequest(page_size=1_000)
    listed = await control.stub.ListAuditRecords(request, metadata=bearing("root"))
    return sorted(
        (each.subject, each.owner, each.action, each.aggregate_id or each.name, each.outcome)
        for each in listed.records
    )


def test_every_method_that_changes_something_is_tried_here() -> None:
    """A method that is not in `EFFECTS`: add it there, with the records that it leaves."""
    changing = {name for name, scope in SCOPES.items() if scope == JOBS_WRITE}
    for_admins = {name for name, scope in SCOPES.items() if scope == JOBS_ADMIN}

    assert set(EFFECTS) == changing | (for_admins - ONLY_SHOWING)
    assert for_admins >= ONLY_SHOWING


@pytest.mark.parametrize("method", list(EFFECTS))
async def test_each_effect_leaves_one_record_and_the_same_call_again_none(stage: Stage, method: str) -> None:
    expected = sorted(await EFFECTS[method](stage))

    assert stage.called[-1][0] == method
    assert await records(stage.control) == expected
    if method not in EACH_TIME_ANEW:
        await stage.call_again()
        assert await records(stage.control) == expected


async def test_every_action_is_left_by_some_call(stage: Stage) -> None:
    left: set[str] = set()
    for method in ("AdvanceBatch", "SelectBatchItems", "RetryBatchItems", "CancelBatch", "CreateBatch"):
        left |= {action for _, _, action, _, _ in await EFFECTS[method](stage)}
    for method in ("Resume", "ResendOutboxMessages", "UploadInput", "RetryJob", "CancelJob", "CreateJob"):
        left |= {action for _, _, action, _, _ in await EFFECTS[method](stage)}

    assert left == {str(each) for each in AuditAction}


async def test_who_acts_for_itself_is_subject_and_owner(stage: Stage) -> None:
    own = pb.CreateJobRequest(job_type="synthetic", input=b"{}")
    job = (await stage.control.stub.CreateJob(own, metadata=bearing("ada", "jobs.write"))).job
    assert await records(stage.control) == [("ada", "ada", "job.create", job.job_id, "OK")]


async def test_an_admin_who_cancels_another_one_s_job_acts_for_its_owner(stage: Stage) -> None:
    job_id = await stage.job()
    root = bearing("root", "jobs.write", "jobs.admin")
    await stage.control.stub.CancelJob(pb.CancelJobRequest(job_id=str(job_id)), metadata=root)
    assert await records(stage.control) == [("root", ADA, "job.cancel", str(job_id), "OK")]


REFUSED: dict[str, tuple[str, Any]] = {
    "a job of no type": ("CreateJob", pb.CreateJobRequest(job_type="no_such_type", input=b"{}")),
    "an input that does not fit": (
        "CreateJob",
        pb.CreateJobRequest(job_type="synthetic", input=b'{"items": "many"}'),
    ),
    "a document that is not there": (
        "CreateJob",
        pb.CreateJobRequest(job_type="document_import", input=b'{"upload_id": "%s"}' % NO_JOB.encode()),
    ),
    "no such job": ("CancelJob", pb.CancelJobRequest(job_id=NO_JOB)),
    "nothing to run again": ("RetryJob", pb.RetryJobRequest(job_id=NO_JOB)),
    "no such batch": ("CancelBatch", pb.CancelBatchRequest(batch_id=NO_JOB)),
    "a batch with a misfit": (
        "CreateBatch",
        pb.CreateBatchRequest(job_type="synthetic", inputs=[b"{}", b'{"items": "many"}']),
    ),
    "no such queue": ("Pause", pb.PauseRequest(queue="no-such-queue")),
    "nothing that is paused": ("Resume", pb.ResumeRequest(job_type="no_such_type")),
    "an upload without a header": ("UploadInput", [pb.UploadInputRequest(chunk=b"text")]),
}


@pytest.mark.parametrize("case", list(REFUSED))
async def test_what_is_refused_leaves_no_record(stage: Stage, case: str) -> None:
    method, request = REFUSED[case]
    sent = iter(request) if isinstance(request, list) else request
    await refused(getattr(stage.control.stub, method)(sent, metadata=bearing("backend")))

    assert await records(stage.control) == []


async def test_what_is_refused_for_what_has_become_of_it_leaves_no_record(stage: Stage) -> None:
    failed, waiting = await stage.failed_job(), await stage.job()
    for method, request in (
        ("CancelJob", pb.CancelJobRequest(job_id=str(failed))),
        ("RetryJob", pb.RetryJobRequest(job_id=str(waiting))),
    ):
        await refused(getattr(stage.control.stub, method)(request, metadata=bearing("backend")))
    assert await records(stage.control) == []


async def test_counting_and_finding_nothing_leave_no_record(stage: Stage) -> None:
    await stage.job()
    await stage.failed_job()
    synthetic, nothing = pb.JobFilter(job_type="synthetic"), pb.JobFilter(job_type="no_such_type")
    await stage.call("CancelJobs", pb.CancelJobsRequest(filter=synthetic, dry_run=True))
    await stage.call("RetryJobs", pb.RetryJobsRequest(filter=synthetic, dry_run=True))
    await stage.call("CancelJobs", pb.CancelJobsRequest(filter=nothing))
    await stage.call("RetryJobs", pb.RetryJobsRequest(filter=nothing))
    await stage.call("ResendOutboxMessages", pb.ResendOutboxMessagesRequest())
    assert await records(stage.control) == []


async def test_a_thousand_jobs_of_one_call_leave_a_thousand_records(stage: Stage) -> None:
    wish = pb.CreateJobRequest(job_type="synthetic", input=b"{}", owner=ADA)
    made = await stage.call("CreateJobs", pb.CreateJobsRequest(jobs=[wish] * 1_000))
    expected = [told("job.create", each.created.job.job_id) for each in made.outcomes]
    assert await records(stage.control) == sorted(expected)
    again = await rows(stage.control, "select count(distinct aggregate_id) as n from audit_records")
    assert again[0].n == 1_000
