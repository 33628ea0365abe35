from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import grpc

from job_api.rpc.job_control_servicer import SCOPES, SERVICE_NAME
from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.identity import JobId, Owner
from shared.domain.jobs import Artifact, JobError, JobState
from shared.domain.leases import Heartbeat
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from shared.rpc.identity import ALL_SCOPES
from shared.storage.state_changes import Ending
from tests.support import storage
from tests.support.control_service import NO_JOB, Control, bearing, refused

LOST = JobError("PROVIDER_TIMEOUT", "the provider took too long", "10.0.0.7 did not answer in 30 s")


def job_id(job: job_pb2.Job) -> JobId:
    return JobId(UUID(job.job_id))


async def ids(control: Control, *, metadata: Any = (), **fields: Any) -> list[str]:
    """The ids of all pages of a list."""
    found: list[str] = []
    token = ""
    while True:
        request = pb.ListJobsRequest(page_token=token, **fields)
        page = await control.stub.ListJobs(request, metadata=metadata)
        found += [each.job_id for each in page.jobs]
        token = page.next_page_token
        if not token:
            return found


async def a_success(control: Control, artifacts: Sequence[Artifact]) -> str:
    """Run a job to its end, as a worker does."""
    lease = await storage.a_lease(control.transactions)
    async with control.transactions.begin() as transaction:
        ending = await storage.ending(transaction, lease.ref, AttemptEnd(AttemptOutcome.SUCCEEDED))
        ending = Ending(
            ending.lease,
            ending.end,
            ending.decision,
            output=b'{"items":1}',
            output_hash="ab" * 32,
            artifact_count=len(artifacts),
        )
        assert await transaction.states.end_attempts([ending])
        await transaction.artifacts.add({lease.ref.job_id: artifacts})
    return str(lease.ref.job_id)


async def test_a_running_job_shows_its_attempt_and_progress(control: Control) -> None:
    job = await control.create()
    lease = await storage.a_lease(control.transactions, job_id=job_id(job))
    async with control.transactions.begin() as transaction:
        await transaction.leases.extend([Heartbeat(lease.ref, 40, "page 2 of 5")])
    shown = await control.get(job.job_id)
    assert (shown.state, shown.attempt) == (job_pb2.JOB_STATE_RUNNING, 1)
    assert (shown.progress, shown.progress_message) == (40, "page 2 of 5")
    assert shown.HasField("start_time")
    assert not shown.HasField("next_attempt_time")


async def test_the_error_of_the_last_attempt_shows_while_the_job_goes_on_and_then_is_the_jobs(
    control: Control,
) -> None:
    job = await control.create()
    lease = await storage.a_lease(control.transactions, job_id=job_id(job))
    await storage.end_attempt(control.transactions, lease.ref, AttemptEnd(AttemptOutcome.FAILED, LOST))
    shown = await control.get(job.job_id)
    assert shown.state == job_pb2.JOB_STATE_RUNNING
    assert not shown.HasField("error")
    assert shown.last_attempt_error.code == "PROVIDER_TIMEOUT"
    assert (shown.failure_count, shown.HasField("next_attempt_time")) == (1, True)

    lease = await storage.a_lease(control.transactions, job_id=job_id(job), attempt=2)
    final = AttemptEnd(AttemptOutcome.FAILED, storage.FINAL)
    await storage.end_attempt(control.transactions, lease.ref, final)
    shown = await control.get(job.job_id)
    assert shown.state == job_pb2.JOB_STATE_FAILED
    assert shown.error.code == "INPUT_BROKEN"
    assert not shown.HasField("last_attempt_error")
    assert shown.HasField("finish_time")


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


async def test_a_success_shows_output_and_artifacts(control: Control) -> None:
    artifacts = [Artifact("item", f"a{n}", n, b'{"n":%d}' % n) for n in (1, 2, 3)]
    made = await a_success(control, artifacts)
    shown = await control.get(made)
    assert (shown.state, shown.progress) == (job_pb2.JOB_STATE_SUCCEEDED, 100)
    assert (shown.artifact_count, shown.output_hash) == (3, "ab" * 32)
    assert [(each.artifact_id, each.ordinal, each.content) for each in shown.artifacts] == [
        ("a1", 1, b""),
        ("a2", 2, b""),
        ("a3", 3, b""),
    ]
    output = await control.stub.GetJobOutput(pb.GetJobOutputRequest(job_id=made))
    assert (output.output, output.output_hash) == (b'{"items":1}', "ab" * 32)


async def test_a_job_that_has_not_succeeded_has_no_output(control: Control) -> None:
    job = await control.create()
    output = await control.stub.GetJobOutput(pb.GetJobOutputRequest(job_id=job.job_id))
    assert output == pb.GetJobOutputResponse()


async def test_attempts_are_listed_first_to_last_in_pages_with_the_running_one(control: Control) -> None:
    made = await storage.a_job(control.transactions)
    for attempt in (1, 2):
        lease = await storage.a_lease(control.transactions, job_id=made, attempt=attempt)
        end = AttemptEnd(AttemptOutcome.FAILED, LOST)
        await storage.end_attempt(control.transactions, lease.ref, end)
    await storage.a_lease(control.transactions, job_id=made, attempt=3)
    seen: list[job_pb2.Attempt] = []
    token = ""
    for _ in range(3):
        request = pb.ListAttemptsRequest(job_id=str(made), page_size=1, page_token=token)
        page = await control.stub.ListAttempts(request)
        seen += page.attempts
        token = page.next_page_token
    assert token == ""
    assert [each.number for each in seen] == [1, 2, 3]
    assert [each.outcome for each in seen] == [
        job_pb2.ATTEMPT_OUTCOME_FAILED,
        job_pb2.ATTEMPT_OUTCOME_FAILED,
        job_pb2.ATTEMPT_OUTCOME_UNSPECIFIED,
    ]
    assert [each.HasField("end_time") for each in seen] == [True, True, False]
    assert seen[0].executor_name == "executor"
    assert UUID(seen[0].incarnation_id).version == 7


async def test_artifacts_are_paged_with_their_content_where_asked_for(control: Control) -> None:
    artifacts = [Artifact("item", f"a{n}", n, b'{"n":%d}' % n) for n in range(1, 121)]
    made = await a_success(control, artifacts)
    for content in (False, True):
        seen: list[job_pb2.Artifact] = []
        token, pages = "", 0
        while pages == 0 or token:
            request = pb.ListArtifactsRequest(
                job_id=made, page_size=50, page_token=token, include_content=content
            )
            page = await control.stub.ListArtifacts(request)
            seen += page.artifacts
            token, pages = page.next_page_token, pages + 1
        assert pages == 3
        assert [each.ordinal for each in seen] == list(range(1, 121))
        assert seen[6].content == (b'{"n":7}' if content else b"")


async def test_a_page_of_artifacts_ends_before_its_content_grows_too_large(control: Control) -> None:
    large = b'"' + b"a" * (3 << 20) + b'"'
    made = await a_success(control, [Artifact("item", f"a{n}", n, large) for n in range(1, 6)])
    sizes, token = list[int](), ""
    while not sizes or token:
        request = pb.ListArtifactsRequest(job_id=made, page_token=token, include_content=True)
        page = await control.stub.ListArtifacts(request)
        sizes.append(len(page.artifacts))
        token = page.next_page_token
    assert sizes == [2, 2, 1]


async def test_jobs_are_listed_newest_first_and_new_ones_do_not_shift_the_pages(control: Control) -> None:
    made = [(await control.create()).job_id for _ in range(7)]
    first = await control.stub.ListJobs(pb.ListJobsRequest(page_size=3))
    for _ in range(3):
        await control.create()
    second = await control.stub.ListJobs(pb.ListJobsRequest(page_size=3, page_token=first.next_page_token))
    third = await control.stub.ListJobs(pb.ListJobsRequest(page_size=3, page_token=second.next_page_token))
    pages = [[each.job_id for each in page.jobs] for page in (first, second, third)]
    assert pages == [made[:3:-1], made[3:0:-1], made[0:1]]
    assert third.next_page_token == ""


async def test_jobs_of_one_moment_are_all_listed_once(control: Control) -> None:
    wishes = [pb.CreateJobRequest(job_type="synthetic", input=b"{}")] * 25
    response = await control.stub.CreateJobs(pb.CreateJobsRequest(jobs=wishes))
    found = await ids(control, page_size=4)
    assert sorted(found) == sorted(each.created.job.job_id for each in response.outcomes)


async def test_a_list_can_be_narrowed(control: Control) -> None:
    plain = await control.create()
    marked = await control.create(labels={"a": "1", "b": "2"})
    aimed = await control.create(target=job_pb2.Target(type="document", id="Chapter_9%"))
    document = await control.create("document_import", b'{"text": "x"}')
    failed = str(await storage.job_in(control.transactions, JobState.FAILED))
    cases = [
        (pb.JobFilter(labels={"a": "1"}), {marked.job_id}),
        (pb.JobFilter(labels={"a": "2"}), set()),
        (pb.JobFilter(target=job_pb2.Target(type="document")), {aimed.job_id}),
        (pb.JobFilter(target=job_pb2.Target(type="document", id="other")), set()),
        (pb.JobFilter(job_type="document_import"), {document.job_id}),
        (pb.JobFilter(queue="import"), {document.job_id}),
        (pb.JobFilter(states=[job_pb2.JOB_STATE_FAILED]), {failed}),
        (pb.JobFilter(create_time_from=aimed.create_time), {aimed.job_id, document.job_id, failed}),
        (pb.JobFilter(create_time_to=marked.create_time), {plain.job_id}),
        (pb.JobFilter(text="chapter_9%"), {aimed.job_id}),
        (pb.JobFilter(text="input_broken"), {failed}),
        (pb.JobFilter(text="%%%"), set()),
    ]
    for job_filter, expected in cases:
        assert set(await ids(control, filter=job_filter)) == expected, str(job_filter)


async def test_a_page_token_opens_no_other_list(control: Control) -> None:
    for _ in range(3):
        await control.create()
    page = await control.stub.ListJobs(pb.ListJobsRequest(page_size=1))
    token = page.next_page_token
    raw = bytearray(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    raw[-3] ^= 1
    altered = base64.urlsafe_b64encode(bytes(raw)).decode().rstrip("=")
    other_filter = pb.JobFilter(states=[job_pb2.JOB_STATE_QUEUED])
    job = await control.create()
    calls = [
        control.stub.ListJobs(pb.ListJobsRequest(filter=other_filter, page_token=token)),
        control.stub.ListAttempts(pb.ListAttemptsRequest(job_id=job.job_id, page_token=token)),
        control.stub.ListArtifacts(pb.ListArtifactsRequest(job_id=job.job_id, page_token=token)),
        control.stub.ListJobDefinitions(pb.ListJobDefinitionsRequest(page_token=token)),
        *(
            control.stub.ListJobs(pb.ListJobsRequest(page_token=bad))
            for bad in (altered, token[:-4], token + "AAAA", "nonsense", "é", "=", "A" * 10_000)
        ),
    ]
    for call in calls:
        refusal = await refused(call)
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
        assert refusal.reason == "INVALID_PAGE_TOKEN"
        assert refusal.fields == ["page_token"]


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
            control.stub.WatchJob(pb.WatchJobRequest(job_id=asked), metadata=bob),
        ]
        for call in calls:
            refusal = await refused(call)
            assert refusal.code is grpc.StatusCode.NOT_FOUND
            assert (refusal.reason, refusal.metadata) == ("JOB_NOT_FOUND", {"job_id": asked})
    assert await ids(control, metadata=bob) == []
    assert await ids(control, metadata=ada) == [theirs]
    assert await ids(control, metadata=root) == [theirs]
    assert await ids(control, metadata=root, filter=pb.JobFilter(owner="bob")) == []
    assert (await control.stub.GetJob(pb.GetJobRequest(job_id=theirs), metadata=root)).job.owner == "ada"
    refusal = await refused(
        control.stub.ListJobs(pb.ListJobsRequest(filter=pb.JobFilter(owner="ada")), metadata=bob)
    )
    assert refusal.metadata == {"scope": "jobs.admin"}


async def test_job_types_are_listed_by_name_with_their_schemas(control: Control) -> None:
    first = await control.stub.ListJobDefinitions(pb.ListJobDefinitionsRequest(page_size=1))
    rest = await control.stub.ListJobDefinitions(
        pb.ListJobDefinitionsRequest(page_token=first.next_page_token)
    )
    listed = [*first.definitions, *rest.definitions]
    assert [each.job_type for each in listed] == ["document_import", "synthetic"]
    synthetic = listed[1]
    assert (synthetic.queue, synthetic.domain, synthetic.max_retries) == ("drill", "drill", 2)
    assert synthetic.timeout.seconds == 600
    assert "items" in json.loads(synthetic.input_schema)["properties"]
    assert json.loads(synthetic.output_schema)["additionalProperties"] is False


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


async def test_methods_of_later_versions_are_unimplemented(control: Control) -> None:
    for call in (
        control.stub.RetryJob(pb.RetryJobRequest(job_id=NO_JOB)),
        control.stub.CreateBatch(pb.CreateBatchRequest()),
        control.stub.WatchBatch(pb.WatchBatchRequest(batch_id=NO_JOB)),
    ):
        assert (await refused(call)).code is grpc.StatusCode.UNIMPLEMENTED
