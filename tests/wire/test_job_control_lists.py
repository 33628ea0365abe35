from __future__ import annotations

import base64
import json
from uuid import UUID

import grpc

from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.identity import JobId, Owner
from shared.domain.jobs import Artifact, JobError, JobState
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from tests.support import storage
from tests.support.control_service import Control, a_success, listed_ids, refused

LOST = JobError("PROVIDER_TIMEOUT", "the provider took too long", "10.0.0.7 did not answer in 30 s")


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


async def test_the_list_goes_by_the_databases_time_whatever_clock_the_ids_were_made_by(
    control: Control,
) -> None:
    milliseconds = [5, 1, 4, 2, 3]  # as replicas and workers make them whose clocks disagree
    ids = [JobId(UUID(int=each << 80 | 0x7 << 76 | 0b10 << 62)) for each in milliseconds]
    for each in ids:
        await storage.a_job(control.transactions, job_id=each, owner=Owner("local"))
    found = await listed_ids(control, page_size=2)
    assert found == [str(each) for each in reversed(ids)]


async def test_jobs_of_one_moment_are_all_listed_once(control: Control) -> None:
    wishes = [pb.CreateJobRequest(job_type="synthetic", input=b"{}")] * 25
    response = await control.stub.CreateJobs(pb.CreateJobsRequest(jobs=wishes))
    found = await listed_ids(control, page_size=4)
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
        assert set(await listed_ids(control, filter=job_filter)) == expected, str(job_filter)


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


async def test_job_types_are_listed_by_name_with_their_schemas(control: Control) -> None:
    first = await control.stub.ListJobDefinitions(pb.ListJobDefinitionsRequest(page_size=1))
    rest = await control.stub.ListJobDefinitions(
        pb.ListJobDefinitionsRequest(page_token=first.next_page_token)
    )
    listed = [*first.definitions, *rest.definitions]
    assert [each.job_type for each in listed] == sorted(each.job_type for each in listed)
    synthetic = next(each for each in listed if each.job_type == "synthetic")
    assert (synthetic.queue, synthetic.domain, synthetic.max_retries) == ("drill", "drill", 2)
    assert synthetic.timeout.seconds == 600
    assert "items" in json.loads(synthetic.input_schema)["properties"]
    assert json.loads(synthetic.output_schema)["additionalProperties"] is False
