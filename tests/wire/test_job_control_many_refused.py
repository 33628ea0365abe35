"""What CancelJobs and RetryJobs refuse, and to whom."""

from __future__ import annotations

import grpc
import pytest

from job_api.operations import selected_jobs
from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.identity import Owner
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from tests.support import storage
from tests.support.control_service import Control, bearing, refused
from tests.support.selected_jobs import REQUESTS, SYNTHETIC, call, count, rows


@pytest.mark.parametrize("method", list(REQUESTS))
async def test_an_owner_touches_its_own_jobs_only_and_an_admin_all(
    guarded_control: Control, method: str
) -> None:
    control = guarded_control
    made = []
    for owner in ("ada", "bob"):
        made.append(await storage.a_job(control.transactions, owner=Owner(owner)))
        if method == "RetryJobs":
            lease = await storage.a_lease(control.transactions, job_id=made[-1])
            final = AttemptEnd(AttemptOutcome.FAILED, storage.FINAL)
            await storage.end_attempt(control.transactions, lease.ref, final)
    ada, root = bearing("ada", "jobs.write"), bearing("root", "jobs.write", "jobs.admin")
    theirs = pb.JobFilter(owner="bob")

    assert (await call(control, method, root, filter=SYNTHETIC, dry_run=True)).count == 2
    assert (await call(control, method, root, filter=theirs, dry_run=True)).count == 1
    refusal = await refused(getattr(control.stub, method)(REQUESTS[method](filter=theirs), metadata=ada))
    assert (refusal.code, refusal.metadata) == (grpc.StatusCode.PERMISSION_DENIED, {"scope": "jobs.admin"})
    reader = bearing("ada", "jobs.read", "jobs.admin")
    refusal = await refused(
        getattr(control.stub, method)(REQUESTS[method](filter=SYNTHETIC), metadata=reader)
    )
    assert (refusal.code, refusal.metadata) == (grpc.StatusCode.PERMISSION_DENIED, {"scope": "jobs.write"})
    assert (await call(control, method, ada, filter=SYNTHETIC)).count == 1
    assert (await call(control, method, root, filter=SYNTHETIC, dry_run=True)).count == 1
    if method == "RetryJobs":
        (new,) = await rows(control, "select * from jobs where origin_job_id is not null")
        assert (new.origin_job_id, new.owner, new.created_by) == (made[0], "ada", "ada")


@pytest.mark.parametrize("method", list(REQUESTS))
async def test_what_is_malformed_is_refused_by_its_field(control: Control, method: str) -> None:
    for job_filter, field in (
        (None, "filter"),
        (pb.JobFilter(), "filter"),
        (pb.JobFilter(states=[99]), "filter.states[0]"),  # type: ignore[list-item]  # as others may send it
        (pb.JobFilter(job_type="x" * 65), "filter.job_type"),
        (pb.JobFilter(queue="x" * 65), "filter.queue"),
        (pb.JobFilter(text="ab"), "filter.text"),
        (pb.JobFilter(target=job_pb2.Target()), "filter.target.type"),
        (pb.JobFilter(owner="a\0b"), "filter.owner"),
    ):
        request = REQUESTS[method](filter=job_filter)
        refusal = await refused(getattr(control.stub, method)(request))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_INPUT")
        assert field in refusal.fields


@pytest.mark.parametrize("method", list(REQUESTS))
async def test_a_token_of_something_else_is_refused(
    control: Control, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selected_jobs, "ROWS_COUNTED_MAX", 1)
    for _ in range(2):
        await control.create()
    other = "RetryJobs" if method == "CancelJobs" else "CancelJobs"
    token = (await call(control, "CancelJobs", filter=SYNTHETIC, dry_run=True)).next_page_token
    if method == "RetryJobs":
        await count(control, "CancelJobs", filter=SYNTHETIC)
        token = (await call(control, method, filter=SYNTHETIC, dry_run=True)).next_page_token
    assert token
    for wrong in (
        REQUESTS[method](filter=SYNTHETIC, page_token=token),
        REQUESTS[method](filter=pb.JobFilter(queue="drill"), dry_run=True, page_token=token),
        REQUESTS[method](filter=SYNTHETIC, dry_run=True, page_token="nonsense"),
        REQUESTS[method](filter=SYNTHETIC, dry_run=True, page_token="x" * 10_000),
        REQUESTS[other](filter=SYNTHETIC, dry_run=True, page_token=token),
    ):
        name = type(wrong).DESCRIPTOR.name.removesuffix("Request")
        refusal = await refused(getattr(control.stub, name)(wrong))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_PAGE_TOKEN")
