from __future__ import annotations

import grpc

from job_api.rpc.job_control_servicer import SCOPES, SERVICE_NAME, JobControlServicer
from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.identity import Owner
from shared.domain.jobs import JobError
from shared.domain.scopes import ALL_SCOPES
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_control_pb2_grpc
from tests.support import storage
from tests.support.control_service import NO_JOB, Control, bearing, listed_ids, refused

LOST = JobError("PROVIDER_TIMEOUT", "the provider took too long", "10.0.0.7 did not answer in 30 s")


async def test_what_happened_inside_is_for_admins(guarded_control: Control) -> None:
    control = guarded_control
    made = await storage.a_job(control.transactions, owner=Owner("ada"))
    lease = await storage.a_lease(control.transactions, job_id=made)
    await storage.end_attempt(control.transactions, lease.ref, AttemptEnd(AttemptOutcome.FAILED, LOST))
    ada, root = bearing("ada", "jobs.read"), bearing("root", "jobs.read", "jobs.admin")
    for caller, inside in ((ada, ""), (root, LOST.internal_message)):
        request = pb.GetJobRequest(job_id=str(made))
        job = (await control.stub.GetJob(request, metadata=caller)).job
        assert job.last_attempt_error.message == LOST.message
        assert job.last_attempt_error.internal_message == inside
        listed = await control.stub.ListAttempts(pb.ListAttemptsRequest(job_id=str(made)), metadata=caller)
        assert listed.attempts[0].error.internal_message == inside
        watch = control.stub.WatchJob(pb.WatchJobRequest(job_id=str(made)), metadata=caller)
        events = [(await watch.read()).event for _ in range(3)]
        assert events[2].error.internal_message == inside
        watch.cancel()


async def test_a_job_of_another_owner_does_not_exist(guarded_control: Control) -> None:
    control = guarded_control
    ada, bob = bearing("ada", "jobs.read", "jobs.write"), bearing("bob", "jobs.read", "jobs.write")
    root = bearing("root", "jobs.read", "jobs.write", "jobs.admin")
    request = pb.CreateJobRequest(job_type="synthetic", input=b"{}")
    theirs = (await control.stub.CreateJob(request, metadata=ada)).job.job_id
    for asked in (theirs, NO_JOB):
        calls = [
            control.stub.GetJob(pb.GetJobRequest(job_id=asked), metadata=bob),
            control.stub.GetJobOutput(pb.GetJobOutputRequest(job_id=asked), metadata=bob),
            control.stub.ListAttempts(pb.ListAttemptsRequest(job_id=asked), metadata=bob),
            control.stub.ListArtifacts(pb.ListArtifactsRequest(job_id=asked), metadata=bob),
            control.stub.CancelJob(pb.CancelJobRequest(job_id=asked), metadata=bob),
            control.stub.RetryJob(pb.RetryJobRequest(job_id=asked), metadata=bob),
            control.stub.WatchJob(pb.WatchJobRequest(job_id=asked), metadata=bob),
        ]
        for call in calls:
            refusal = await refused(call)
            assert refusal.code is grpc.StatusCode.NOT_FOUND
            assert (refusal.reason, refusal.metadata) == ("JOB_NOT_FOUND", {"job_id": asked})
    assert await listed_ids(control, metadata=bob) == []
    assert await listed_ids(control, metadata=ada) == [theirs]
    assert await listed_ids(control, metadata=root) == [theirs]
    assert await listed_ids(control, metadata=root, filter=pb.JobFilter(owner="bob")) == []
    assert (await control.stub.GetJob(pb.GetJobRequest(job_id=theirs), metadata=root)).job.owner == "ada"
    refusal = await refused(
        control.stub.ListJobs(pb.ListJobsRequest(filter=pb.JobFilter(owner="ada")), metadata=bob)
    )
    assert refusal.metadata == {"scope": "jobs.admin"}


def test_every_method_has_a_scope() -> None:
    methods = pb.DESCRIPTOR.services_by_name["JobControl"].methods_by_name
    assert set(methods) == set(SCOPES)
    assert set(SCOPES.values()) <= ALL_SCOPES
    assert SERVICE_NAME == "baton.v1.JobControl"


async def test_every_method_refuses_a_caller_without_its_scope(guarded_control: Control) -> None:
    methods = pb.DESCRIPTOR.services_by_name["JobControl"].methods_by_name
    for method, scope in SCOPES.items():
        message = getattr(pb, methods[method].input_type.name)()
        request = iter([message]) if method == "UploadInput" else message
        weak = bearing("ada", *(ALL_SCOPES - {scope}))
        refusal = await refused(getattr(guarded_control.stub, method)(request, metadata=weak))
        assert refusal.code is grpc.StatusCode.PERMISSION_DENIED, method
        assert refusal.metadata == {"scope": scope}, method


def test_every_method_is_implemented() -> None:
    generated = vars(job_control_pb2_grpc.JobControlServicer)
    assert [each for each in SCOPES if getattr(JobControlServicer, each) is generated[each]] == []
