"""What ListEvents and WatchEvents refuse, with which details."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import grpc
import pytest
import sqlalchemy as sa

from shared.domain.jobs import JobState
from shared.domain.scopes import ALL_SCOPES
from shared.gen.baton.v1 import job_control_pb2 as pb
from tests.support import storage
from tests.support.control_service import Control, bearing, refused
from tests.support.feeds import all_listed, next_events, watching
from tests.support.outgoing_events import emit_and_number

NO_CURSORS = ["nonsense", "é", "A" * 5_000, "\0"]


async def test_cursors_that_are_none_are_refused(control: Control) -> None:
    await storage.job_in(control.transactions, JobState.SUCCEEDED)
    (event,) = await all_listed(control, at_least=1)
    job = await control.create()
    stream = control.watch(job.job_id)
    of_a_job = (await stream.read()).cursor
    stream.cancel()
    for cursor in (*NO_CURSORS, event.cursor[:-1], of_a_job):
        for call in (
            control.stub.ListEvents(pb.ListEventsRequest(cursor=cursor)),
            watching(control, cursor=cursor),
        ):
            refusal = await refused(call)
            assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
            assert (refusal.reason, refusal.fields) == ("INVALID_INPUT", ["cursor"])


async def test_a_cursor_of_another_feed_or_before_what_is_kept_is_refused(control: Control) -> None:
    job_id = await storage.a_job(control.transactions)
    await emit_and_number(control.transactions, job_id, *["job.failed"] * 3)
    events = await all_listed(control, at_least=3)
    for numbers, cursor in (("last_number = 2", events[2].cursor), ("removed_number = 2", events[0].cursor)):
        async with control.transactions.begin() as transaction:
            await transaction.connection.execute(sa.text(f"update event_feed set {numbers}"))
        for call in (
            control.stub.ListEvents(pb.ListEventsRequest(cursor=cursor)),
            watching(control, cursor=cursor),
        ):
            assert (await refused(call)).fields == ["cursor"]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"page_size": -1}, ["page_size"]),
        ({"page_size": 1_001}, ["page_size"]),
        ({"event_types": [""]}, ["event_types[0]"]),
        (
            {"event_types": ["job.failed", "job.dispatch", "a" * 100_000]},
            ["event_types[1]", "event_types[2]"],
        ),
        ({"event_types": ["nonsense"] * 10_000, "page_size": -7}, ["event_types", "page_size"]),
    ],
)
async def test_fields_out_of_range_are_named(
    control: Control, fields: dict[str, Any], named: Sequence[str]
) -> None:
    refusal = await refused(control.stub.ListEvents(pb.ListEventsRequest(**fields)))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_INPUT")
    assert refusal.fields == named
    watched = {name: value for name, value in fields.items() if name != "page_size"}
    if watched:
        refusal = await refused(watching(control, **watched))
        assert refusal.fields == [each for each in named if each != "page_size"]


async def test_the_feed_tells_of_all_owners_and_is_for_admins_alone(guarded_control: Control) -> None:
    stub = guarded_control.stub
    owner, admin = bearing("ada", *(ALL_SCOPES - {"jobs.admin"})), bearing("root", "jobs.admin")
    for call in (
        stub.ListEvents(pb.ListEventsRequest(), metadata=owner),
        stub.WatchEvents(pb.WatchEventsRequest(), metadata=owner),
    ):
        refusal = await refused(call)
        assert (refusal.reason, refusal.metadata) == ("PERMISSION_DENIED", {"scope": "jobs.admin"})
    made = await storage.job_in(guarded_control.transactions, JobState.SUCCEEDED)
    watch = stub.WatchEvents(pb.WatchEventsRequest(), metadata=admin)
    (event,) = await next_events(watch, 1)
    assert event.aggregate_id == str(made)
    assert "owner" not in json.loads(event.payload)
    watch.cancel()
