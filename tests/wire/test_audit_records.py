"""Audit records as admins list them: newest first, by subject, aggregate and time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from job_api.client import AsyncClient, AuditFilter, AuditRecordView, Client
from shared.domain.audit import AuditAction
from shared.domain.identity import Owner
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import operation_pb2
from shared.runtime.ids import new_id
from shared.storage.audit import AuditEntry
from tests.support.control_service import NO_JOB, Control, bearing, refused
from tests.support.database_time import DatabaseTime
from tests.support.selected_jobs import rows

ACTIONS = [AuditAction.JOB_CREATE, AuditAction.JOB_CANCEL, AuditAction.JOB_RETRY]


async def record(control: Control, subject: str, *aggregate_ids: UUID | None) -> None:
    """Record effects, all of one moment, as one transaction does."""
    entries = [
        AuditEntry(Owner(subject), Owner("ada"), ACTIONS[number % 3], each)
        for number, each in enumerate(aggregate_ids)
    ]
    async with control.transactions.begin() as transaction:
        await transaction.audit.add(entries)


async def listed(control: Control, *, page_size: int = 2, **fields: Any) -> list[operation_pb2.AuditRecord]:
    """The records of all pages."""
    found: list[operation_pb2.AuditRecord] = []
    token, pages = "", 0
    while pages == 0 or token:
        request = pb.ListAuditRecordsRequest(page_size=page_size, page_token=token, **fields)
        page = await control.stub.ListAuditRecords(request)
        found += page.records
        token, pages = page.next_page_token, pages + 1
    return found


def about(records: list[operation_pb2.AuditRecord]) -> list[str]:
    return [each.aggregate_id for each in records]


async def test_records_come_newest_first_each_once_whatever_the_page_size(control: Control) -> None:
    ids = [new_id() for _ in range(7)]
    await record(control, "backend", *ids[:5])
    await record(control, "other", None)
    await record(control, "backend", *ids[5:])

    newest_first = [str(each) for each in [*reversed(ids[5:]), "", *reversed(ids[:5])]]
    for page_size in (1, 2, 3, 8, 0):
        assert about(await listed(control, page_size=page_size)) == newest_first
    (first, *_) = await listed(control)
    assert (first.subject, first.owner, first.action, first.outcome) == (
        "backend",
        "ada",
        "job.cancel",
        "OK",
    )
    now = (await rows(control, "select engine_time() as now"))[0].now
    assert timedelta(0) <= now - first.record_time.ToDatetime(tzinfo=UTC) < timedelta(minutes=1)


async def test_records_that_are_written_meanwhile_are_on_no_later_page(control: Control) -> None:
    ids = [new_id() for _ in range(4)]
    await record(control, "backend", *ids)
    first = await control.stub.ListAuditRecords(pb.ListAuditRecordsRequest(page_size=2))
    await record(control, "backend", new_id())
    request = pb.ListAuditRecordsRequest(page_size=2, page_token=first.next_page_token)
    second = await control.stub.ListAuditRecords(request)

    assert about([*first.records, *second.records]) == [str(each) for each in reversed(ids)]
    assert second.next_page_token == ""


async def test_filters_let_through_what_fits_all_of_them(control: Control) -> None:
    time = DatabaseTime(control.transactions)
    await time.make_movable()
    job, other = new_id(), new_id()
    moments = [(await rows(control, "select engine_time() as now"))[0].now]
    for subject, aggregate in (("backend", job), ("backend", other), ("root", job), ("root", None)):
        await record(control, subject, aggregate)
        await time.jump(timedelta(hours=1))
        moments.append((await rows(control, "select engine_time() as now"))[0].now)

    async def fitting(**fields: Any) -> list[tuple[str, str]]:
        return [(each.subject, each.aggregate_id) for each in await listed(control, **fields)]

    first, second, third, fourth = (
        ("backend", str(job)),
        ("backend", str(other)),
        ("root", str(job)),
        ("root", ""),
    )
    assert await fitting(subject="backend") == [second, first]
    assert await fitting(aggregate_id=str(job)) == [third, first]
    assert await fitting(aggregate_id=str(job).upper(), subject="root") == [third]
    assert await fitting(record_time_from=at(moments[2])) == [fourth, third]
    assert await fitting(record_time_from=at(moments[1]), record_time_to=at(moments[3])) == [third, second]
    assert await fitting(record_time_to=at(moments[3]), subject="root") == [third]
    assert await fitting(subject="ada") == []
    assert await fitting(aggregate_id=NO_JOB) == []


def at(moment: datetime) -> Timestamp:
    timestamp = Timestamp()
    timestamp.FromDatetime(moment)
    return timestamp


async def test_the_moment_of_a_record_is_in_its_range_from_there_on_and_not_up_to_there(
    control: Control,
) -> None:
    await record(control, "backend", None)
    ((moment, *_),) = await rows(control, "select record_time from audit_records")

    assert len(await listed(control, record_time_from=at(moment))) == 1
    assert await listed(control, record_time_to=at(moment)) == []


MALFORMED: dict[str, tuple[dict[str, Any], str]] = {
    "a negative page size": ({"page_size": -1}, "page_size"),
    "too large a page": ({"page_size": 1001}, "page_size"),
    "too long a subject": ({"subject": "a" * 201}, "subject"),
    "a subject with a NUL": ({"subject": "a\0"}, "subject"),
    "an aggregate that is no UUID": ({"aggregate_id": "job-1"}, "aggregate_id"),
    "a time beyond the calendar": ({"record_time_from": Timestamp(seconds=2**60)}, "record_time_from"),
    "an end beyond the calendar": ({"record_time_to": Timestamp(seconds=-(2**60))}, "record_time_to"),
}


@pytest.mark.parametrize("case", list(MALFORMED))
async def test_a_malformed_request_is_refused_by_its_field(control: Control, case: str) -> None:
    fields, field = MALFORMED[case]
    refusal = await refused(control.stub.ListAuditRecords(pb.ListAuditRecordsRequest(**fields)))

    assert (refusal.code, refusal.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_INPUT")
    assert set(refusal.fields) == {field}


async def test_a_token_opens_its_own_filter_only(control: Control) -> None:
    await record(control, "backend", new_id(), new_id())
    page = await control.stub.ListAuditRecords(pb.ListAuditRecordsRequest(page_size=1, subject="backend"))
    queues = await control.stub.ListQueues(pb.ListQueuesRequest(page_size=1))

    for token, subject in (
        (page.next_page_token, "root"),
        (page.next_page_token, ""),
        (queues.next_page_token, "backend"),
        (page.next_page_token[:-1], "backend"),
        ("nonsense", "backend"),
        ("é", "backend"),
    ):
        request = pb.ListAuditRecordsRequest(subject=subject, page_token=token)
        refusal = await refused(control.stub.ListAuditRecords(request))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_PAGE_TOKEN")
        assert refusal.fields == ["page_token"]


async def test_only_admins_read_records(guarded_control: Control) -> None:
    stub, request = guarded_control.stub, pb.ListAuditRecordsRequest()
    for caller in (bearing("ada", "jobs.read", "jobs.write"), bearing("ada", "jobs.on_behalf")):
        refusal = await refused(stub.ListAuditRecords(request, metadata=caller))
        assert refusal.code is grpc.StatusCode.PERMISSION_DENIED
        assert refusal.metadata == {"scope": "jobs.admin"}
    assert (await refused(stub.ListAuditRecords(request))).code is grpc.StatusCode.UNAUTHENTICATED
    assert await stub.ListAuditRecords(request, metadata=bearing("root", "jobs.admin"))


async def test_both_clients_read_records(control: Control) -> None:
    job = await control.create()
    address, which = control.opened.address, AuditFilter(aggregate_id=UUID(job.job_id))
    async with AsyncClient(address) as client:
        views = [each async for each in client.audit_records(**which)]

    def blocking() -> list[AuditRecordView]:
        with Client(address) as client:
            return list(client.audit_records(**which))

    assert await asyncio.to_thread(blocking) == views
    (view,) = views
    assert (view.subject, view.owner, view.action, view.outcome) == ("local", "local", "job.create", "OK")
    assert view.to_json()["aggregateId"] == job.job_id
    assert view.to_json()["recordTime"].endswith("Z")
    async with AsyncClient(address) as client:
        far = datetime(2999, 1, 1, tzinfo=UTC)
        assert [each async for each in client.audit_records(recorded_from=far, subject="local")] == []
        with pytest.raises(ValueError, match="zone"):
            _ = [each async for each in client.audit_records(recorded_to=datetime(2999, 1, 1))]  # noqa: DTZ001
