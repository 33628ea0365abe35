from __future__ import annotations

from typing import Any

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from tests.support.control_service import NO_JOB, Control, refused

BAD_IDS = ["", "7", "nonsense", NO_JOB + "0", "{" + NO_JOB + "}", NO_JOB.replace("-", ""), "a" * 100_000]
LONG = "a" * 100_000


async def test_an_id_that_is_none_is_refused_everywhere(control: Control) -> None:
    stub = control.stub
    calls = [
        call
        for bad in BAD_IDS
        for call in (
            stub.GetJob(pb.GetJobRequest(job_id=bad)),
            stub.GetJobOutput(pb.GetJobOutputRequest(job_id=bad)),
            stub.ListAttempts(pb.ListAttemptsRequest(job_id=bad)),
            stub.ListArtifacts(pb.ListArtifactsRequest(job_id=bad)),
            stub.CancelJob(pb.CancelJobRequest(job_id=bad)),
            stub.WatchJob(pb.WatchJobRequest(job_id=bad)),
        )
    ]
    for call in calls:
        refusal = await refused(call)
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
        assert (refusal.reason, refusal.fields) == ("INVALID_INPUT", ["job_id"])


async def test_an_id_in_capitals_is_the_same_id(control: Control) -> None:
    job = await control.create()
    assert await control.get(job.job_id.upper()) == job


async def test_a_page_size_out_of_range_is_refused(control: Control) -> None:
    job = await control.create()
    calls = [
        call
        for size in (-1, -(2**31), 1001, 2**31 - 1)
        for call in (
            control.stub.ListJobs(pb.ListJobsRequest(page_size=size)),
            control.stub.ListAttempts(pb.ListAttemptsRequest(job_id=job.job_id, page_size=size)),
            control.stub.ListArtifacts(pb.ListArtifactsRequest(job_id=job.job_id, page_size=size)),
            control.stub.ListJobDefinitions(pb.ListJobDefinitionsRequest(page_size=size)),
        )
    ]
    for call in calls:
        assert (await refused(call)).fields == ["page_size"]


BAD_WISHES: list[tuple[dict[str, Any], str]] = [
    ({"job_type": ""}, "job_type"),
    ({"job_type": LONG}, "job_type"),
    ({"job_type": "a\0b"}, "job_type"),
    ({"idempotency_key": ""}, "idempotency_key"),
    ({"idempotency_key": "7 chars"}, "idempotency_key"),
    ({"idempotency_key": "with a space"}, "idempotency_key"),
    ({"idempotency_key": "é" * 10}, "idempotency_key"),
    ({"idempotency_key": "a" * 129}, "idempotency_key"),
    ({"idempotency_key": "12345678\n"}, "idempotency_key"),
    ({"target": job_pb2.Target(id="i")}, "target.type"),
    ({"target": job_pb2.Target(type="t")}, "target.id"),
    ({"target": job_pb2.Target(type="t", id="a" * 201)}, "target.id"),
    ({"target": job_pb2.Target(type="t", id="a\0")}, "target.id"),
    ({"run_time": Timestamp(seconds=2**62)}, "run_time"),
    ({"run_time": Timestamp(nanos=-1)}, "run_time"),
    ({"run_time": Timestamp(seconds=-(2**62))}, "run_time"),
    ({"start_by_time": Timestamp(seconds=2**62)}, "start_by_time"),
    ({"run_time": Timestamp(seconds=9), "start_by_time": Timestamp(seconds=9)}, "start_by_time"),
    ({"overrides": pb.JobOverrides(priority=101)}, "overrides.priority"),
    ({"overrides": pb.JobOverrides(priority=2**32 - 1)}, "overrides.priority"),
    ({"overrides": pb.JobOverrides(credential_mode=99)}, "overrides.credential_mode"),  # type: ignore[arg-type]
    ({"overrides": pb.JobOverrides(credential_id="a" * 65)}, "overrides.credential_id"),
    ({"overrides": pb.JobOverrides(prompt_version="\0")}, "overrides.prompt_version"),
    ({"overrides": pb.JobOverrides(output_schema_version=2**32 - 1)}, "overrides.output_schema_version"),
    ({"labels": {str(n): "" for n in range(33)}}, "labels"),
    ({"labels": {"": "a"}}, "labels (a key)"),
    ({"labels": {"a" * 64: "a"}}, "labels (a key)"),
    ({"labels": {"a": "a" * 201}}, "labels (a value)"),
    ({"labels": {"a": "\0"}}, "labels (a value)"),
    ({"owner": LONG}, "owner"),
    ({"owner": "a\0b"}, "owner"),
]


async def test_a_wish_with_a_field_out_of_range_is_refused(control: Control) -> None:
    for fields, field in BAD_WISHES:
        request = pb.CreateJobRequest(**{"job_type": "synthetic", "input": b"{}", **fields})
        refusal = await refused(control.stub.CreateJob(request))
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT, fields
        assert refusal.reason == "INVALID_INPUT", fields
        assert field in refusal.fields, fields
        assert LONG[:300] not in refusal.message


async def test_a_wish_at_the_edges_of_its_ranges_is_taken(control: Control) -> None:
    job = await control.create(
        idempotency_key="~" * 128,
        target=job_pb2.Target(type="t" * 64, id="é" * 200),
        run_time=Timestamp(seconds=-62_135_596_800),
        start_by_time=Timestamp(seconds=253_402_300_799),
        overrides=pb.JobOverrides(priority=100, credential_id="c" * 64, output_schema_version=1),
        labels={str(n) * 30: "\U0001f600" * 200 for n in range(10, 42)},
        owner="é" * 200,
    )
    shown = await control.get(job.job_id)
    assert shown == job
    assert len(shown.labels) == 32


async def test_all_fields_at_fault_are_named_at_once(control: Control) -> None:
    request = pb.CreateJobRequest(job_type="", idempotency_key="x", target=job_pb2.Target(type="t"))
    refusal = await refused(control.stub.CreateJob(request))
    assert refusal.fields == ["job_type", "idempotency_key", "target.id"]


BAD_FILTERS: list[tuple[pb.JobFilter, str]] = [
    (pb.JobFilter(states=[0]), "filter.states[0]"),  # type: ignore[list-item]
    (pb.JobFilter(states=[1, 99]), "filter.states[1]"),  # type: ignore[list-item]
    (pb.JobFilter(job_type=LONG), "filter.job_type"),
    (pb.JobFilter(queue="a\0b"), "filter.queue"),
    (pb.JobFilter(create_time_from=Timestamp(seconds=2**62)), "filter.create_time_from"),
    (pb.JobFilter(create_time_to=Timestamp(nanos=-1)), "filter.create_time_to"),
    (pb.JobFilter(target=job_pb2.Target(id="i")), "filter.target.type"),
    (pb.JobFilter(labels={"a": "\0"}), "filter.labels (a value)"),
    (pb.JobFilter(batch_id="nonsense"), "filter.batch_id"),
    (pb.JobFilter(owner="\n"), "filter.owner"),
    (pb.JobFilter(text="ab"), "filter.text"),
    (pb.JobFilter(text="a\0b"), "filter.text"),
    (pb.JobFilter(text="a" * 101), "filter.text"),
]


async def test_a_filter_with_a_field_out_of_range_is_refused(control: Control) -> None:
    for job_filter, field in BAD_FILTERS:
        refusal = await refused(control.stub.ListJobs(pb.ListJobsRequest(filter=job_filter)))
        assert (refusal.reason, refusal.fields) == ("INVALID_INPUT", [field]), str(job_filter)


async def test_bytes_that_are_no_message_are_refused_without_harm(control: Control) -> None:
    async with grpc.aio.insecure_channel(control.opened.address) as channel:
        for method in ("CreateJob", "GetJob", "ListJobs", "CancelJob"):
            raw: Any = channel.unary_unary(f"/baton.v1.JobControl/{method}")
            refusal = await refused(raw(b"\xff\xff\xff\xff"))
            assert (refusal.reason, refusal.fields) == ("INVALID_INPUT", ["request"])
    assert (await control.create()).job_id
