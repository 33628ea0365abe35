"""What operators ask JobControl: messages that could not be delivered, executors, queues."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc
import pytest
import sqlalchemy as sa

from job_api.operations import resend_outbox_messages
from shared.domain.identity import JobId
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import operation_pb2
from shared.storage import outbox_messages
from tests.support import storage
from tests.support.control_service import Control, bearing, refused

METHODS = ("ListQueues", "ListExecutors", "ListOutboxMessages", "ResendOutboxMessages")

_KILL = """
update outbox set state = 'dead', delivered_time = null, tries = 3, last_error_code = 'WRONGTYPE',
    last_error_message = 'WRONGTYPE a key holds something else'
where aggregate_id = :job_id and event_type = 'job.dispatch' returning outbox_id
"""


async def told(control: Control, statement: str, **parameters: Any) -> list[Any]:
    async with control.transactions.begin() as transaction:
        return list(await transaction.connection.execute(sa.text(statement), parameters))


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for what the service's loops do by themselves; nothing tells of it but the database."""
    async with asyncio.timeout(20):
        while True:
            if await condition():
                return
            await asyncio.sleep(0.05)


async def a_dead_dispatch(control: Control) -> tuple[JobId, int]:
    job_id = await storage.a_job(control.transactions)
    (row,) = await told(control, _KILL, job_id=job_id)
    return job_id, row.outbox_id


async def listed(control: Control, **fields: Any) -> list[operation_pb2.OutboxMessage]:
    found: list[operation_pb2.OutboxMessage] = []
    token, pages = "", 0
    while pages == 0 or token:
        request = pb.ListOutboxMessagesRequest(page_token=token, **fields)
        page = await control.stub.ListOutboxMessages(request)
        found += page.messages
        token, pages = page.next_page_token, pages + 1
    return found


async def resent(control: Control, ids: Sequence[int] = ()) -> int:
    response = await control.stub.ResendOutboxMessages(pb.ResendOutboxMessagesRequest(outbox_ids=ids))
    count: int = response.count
    return count


async def test_dead_messages_are_listed_oldest_first_with_why_they_are_dead(control: Control) -> None:
    await storage.a_job(control.transactions)
    dead = [await a_dead_dispatch(control) for _ in range(5)]
    found = await listed(control, page_size=2)
    assert [(each.aggregate_id, each.outbox_id) for each in found] == [(str(job), row) for job, row in dead]
    first = found[0]
    assert (first.event_type, first.aggregate_type, first.tries) == ("job.dispatch", "job", 3)
    assert first.state == operation_pb2.OUTBOX_STATE_DEAD
    assert first.last_error_code == "WRONGTYPE"
    assert first.last_error_message == "WRONGTYPE a key holds something else"
    assert json.loads(first.payload)["job_type"] == "synthetic"
    assert not first.HasField("delivered_time")
    assert await listed(control, state=operation_pb2.OUTBOX_STATE_DEAD) == found


async def test_messages_are_listed_by_their_state(control: Control) -> None:
    waiting = [str(await storage.a_job(control.transactions)) for _ in range(3)]
    await a_dead_dispatch(control)
    await until(lambda: _all_delivered(control))
    delivered = await listed(control, state=operation_pb2.OUTBOX_STATE_DELIVERED, page_size=2)
    assert [each.aggregate_id for each in delivered] == waiting
    assert {each.event_type for each in delivered} == {"job.dispatch"}
    assert all(each.HasField("delivered_time") for each in delivered)
    assert await listed(control, state=operation_pb2.OUTBOX_STATE_PENDING) == []


async def _all_delivered(control: Control) -> bool:
    return not await told(control, "select 1 from outbox where state = 'pending'")


async def test_a_page_that_has_looked_far_enough_ends_without_losing_what_is_behind(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = [await a_dead_dispatch(control) for _ in range(7)]
    await told(control, "update outbox set available_time = engine_time() + interval '1 day' returning 1")
    for _, outbox_id in (dead[0], dead[6]):
        await told(
            control, "update outbox set state = 'pending' where outbox_id = :id returning 1", id=outbox_id
        )
    text = str(outbox_messages._OTHERS).replace(str(outbox_messages.LOOKED_AT_MAX), "2")
    monkeypatch.setattr(outbox_messages, "_OTHERS", sa.text(text))
    found = await listed(control, state=operation_pb2.OUTBOX_STATE_PENDING, page_size=1)
    assert [each.outbox_id for each in found] == [dead[0][1], dead[6][1]]


async def test_a_dead_dispatch_that_is_sent_again_is_delivered(control: Control) -> None:
    (_, first), (_, second), (_, third) = [await a_dead_dispatch(control) for _ in range(3)]
    assert await resent(control, [first, third, first, 2**62]) == 2
    assert [each.outbox_id for each in await listed(control)] == [second]
    await until(lambda: _delivered(control, [first, third]))
    assert await resent(control, [first]) == 0
    assert await resent(control) == 1
    assert await resent(control) == 0
    await until(lambda: _delivered(control, [first, second, third]))


async def _delivered(control: Control, ids: Sequence[int]) -> bool:
    rows = await told(control, "select outbox_id from outbox where state = 'delivered' order by outbox_id")
    return [row.outbox_id for row in rows] == list(ids)


async def test_a_call_sends_the_oldest_messages_again_and_no_more_than_its_limit(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resend_outbox_messages, "RESENT_PER_CALL_MAX", 2)
    dead = [await a_dead_dispatch(control) for _ in range(3)]
    assert await resent(control) == 2
    assert [each.outbox_id for each in await listed(control)] == [dead[2][1]]
    assert await resent(control) == 1


async def test_a_message_that_is_sent_again_has_all_its_tries_and_keeps_its_place(control: Control) -> None:
    _, outbox_id = await a_dead_dispatch(control)
    due = "update outbox set available_time = engine_time() - interval '1 hour' returning available_time"
    (before,) = await told(control, due)
    assert await resent(control, [outbox_id]) == 1
    (after,) = await told(control, "select tries, available_time from outbox")
    assert (after.tries, after.available_time) == (0, before.available_time)


async def test_a_message_that_somebody_holds_is_not_waited_for(control: Control) -> None:
    _, held = await a_dead_dispatch(control)
    _, free = await a_dead_dispatch(control)
    async with control.transactions.begin() as transaction:
        lock = sa.text("select 1 from outbox where outbox_id = :held for update")
        await transaction.connection.execute(lock, {"held": held})
        assert await resent(control, [held, free]) == 1
    assert await resent(control) == 1


async def test_what_operators_ask_wrongly_is_refused(control: Control) -> None:
    stub = control.stub
    cases = [
        (stub.ListQueues(pb.ListQueuesRequest(page_size=-1)), "page_size"),
        (stub.ListQueues(pb.ListQueuesRequest(page_size=1001)), "page_size"),
        (stub.ListExecutors(pb.ListExecutorsRequest(page_size=-1)), "page_size"),
        (stub.ListExecutors(pb.ListExecutorsRequest(page_size=2**31 - 1)), "page_size"),
        (stub.ListOutboxMessages(pb.ListOutboxMessagesRequest(state=99)), "state"),  # type: ignore[arg-type]
        (stub.ListOutboxMessages(pb.ListOutboxMessagesRequest(page_size=-1)), "page_size"),
        (stub.ListOutboxMessages(pb.ListOutboxMessagesRequest(page_size=1001)), "page_size"),
        (stub.ResendOutboxMessages(pb.ResendOutboxMessagesRequest(outbox_ids=[1, 0])), "outbox_ids[1]"),
        (stub.ResendOutboxMessages(pb.ResendOutboxMessagesRequest(outbox_ids=[-(2**63)])), "outbox_ids[0]"),
        (stub.ResendOutboxMessages(pb.ResendOutboxMessagesRequest(outbox_ids=range(1, 1002))), "outbox_ids"),
    ]
    for call, field in cases:
        refusal = await refused(call)
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
        assert (refusal.reason, refusal.fields) == ("INVALID_INPUT", [field])


async def test_a_token_opens_no_other_list_of_operators(control: Control) -> None:
    for _ in range(2):
        await a_dead_dispatch(control)
    page = await control.stub.ListOutboxMessages(pb.ListOutboxMessagesRequest(page_size=1))
    token = page.next_page_token
    pending = operation_pb2.OUTBOX_STATE_PENDING
    for call in (
        control.stub.ListOutboxMessages(pb.ListOutboxMessagesRequest(state=pending, page_token=token)),
        control.stub.ListOutboxMessages(pb.ListOutboxMessagesRequest(page_token=token[:-2])),
        control.stub.ListOutboxMessages(pb.ListOutboxMessagesRequest(page_token="nonsense")),
        control.stub.ListExecutors(pb.ListExecutorsRequest(page_token=token)),
        control.stub.ListExecutors(pb.ListExecutorsRequest(page_token="a" * 5_000)),
        control.stub.ListQueues(pb.ListQueuesRequest(page_token=token)),
        control.stub.ListQueues(pb.ListQueuesRequest(page_token="é")),
        control.stub.ListJobs(pb.ListJobsRequest(page_token=token)),
    ):
        refusal = await refused(call)
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
        assert (refusal.reason, refusal.fields) == ("INVALID_PAGE_TOKEN", ["page_token"])


async def test_only_admins_are_told_what_operators_ask(guarded_control: Control) -> None:
    """Whoever may read, write and act for others: owners' jobs and executors are nobody else's business."""
    methods = pb.DESCRIPTOR.services_by_name["JobControl"].methods_by_name
    owner = bearing("ada", "jobs.read", "jobs.write", "jobs.on_behalf", "jobs.execute")
    for method in METHODS:
        request = getattr(pb, methods[method].input_type.name)()
        refusal = await refused(getattr(guarded_control.stub, method)(request, metadata=owner))
        assert refusal.code is grpc.StatusCode.PERMISSION_DENIED
        assert (refusal.reason, refusal.metadata) == ("PERMISSION_DENIED", {"scope": "jobs.admin"})
        await getattr(guarded_control.stub, method)(request, metadata=bearing("root", "jobs.admin"))
