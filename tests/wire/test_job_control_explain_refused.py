"""Who is not told why a job is not running."""

from __future__ import annotations

import grpc
import pytest

from shared.domain.identity import Owner
from shared.gen.baton.v1 import job_control_pb2 as pb
from tests.support import storage
from tests.support.control_service import NO_JOB, Control, bearing, refused


async def test_an_owner_is_told_of_its_own_jobs_alone(guarded_control: Control) -> None:
    ada, eve = bearing("ada", "jobs.read"), bearing("eve", "jobs.read", "jobs.write", "jobs.on_behalf")
    job_id = await storage.a_job(guarded_control.transactions, owner=Owner("ada"))
    for metadata in (ada, bearing("root", "jobs.admin", "jobs.read")):
        request = pb.ExplainJobRequest(job_id=str(job_id))
        assert (await guarded_control.stub.ExplainJob(request, metadata=metadata)).reasons
    for hidden, metadata in ((job_id, eve), (NO_JOB, eve), (NO_JOB, ada)):
        request = pb.ExplainJobRequest(job_id=str(hidden))
        refusal = await refused(guarded_control.stub.ExplainJob(request, metadata=metadata))
        assert refusal.code is grpc.StatusCode.NOT_FOUND
        assert (refusal.reason, refusal.metadata) == ("JOB_NOT_FOUND", {"job_id": str(hidden)})


async def test_without_the_scope_nothing_is_told(guarded_control: Control) -> None:
    request = pb.ExplainJobRequest(job_id=NO_JOB)
    writer = bearing("ada", "jobs.write", "jobs.execute")
    refusal = await refused(guarded_control.stub.ExplainJob(request, metadata=writer))
    assert refusal.code is grpc.StatusCode.PERMISSION_DENIED
    assert refusal.metadata == {"scope": "jobs.read"}
    refusal = await refused(guarded_control.stub.ExplainJob(request))
    assert refusal.code is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize("job_id", ["", "nonsense", NO_JOB + "0", "0" * 5_000, "\0", NO_JOB[:-1] + "é"])
async def test_what_is_no_job_id_is_refused(control: Control, job_id: str) -> None:
    refusal = await refused(control.stub.ExplainJob(pb.ExplainJobRequest(job_id=job_id)))
    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert (refusal.reason, refusal.fields) == ("INVALID_INPUT", ["job_id"])
