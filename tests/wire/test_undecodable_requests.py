"""Bytes that are no message of the method: told as the caller's fault, without the decoder's words."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import grpc
import pytest

from shared.gen.baton.v1 import execution_service_pb2 as pb
from tests.support.control_service import Control, Refusal, bearing, refused
from tests.support.execution_service import execution_running
from verification.peers.executor import SYNTHETIC

NO_MESSAGE = [b"\xff\xff\xff", b"\x0a\x7fshort", b"\x0a\x02\xc3\x28"]
"""No field at all; a field longer than the message; a text that is no UTF-8."""


def assert_told_plainly(refusal: Refusal) -> None:
    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert (refusal.reason, refusal.fields) == ("INVALID_INPUT", ["request"])
    assert refusal.message == "request: it can't be read as the method's message"


@pytest.mark.parametrize("raw", NO_MESSAGE)
async def test_a_request_that_cannot_be_decoded_is_invalid_input_for_each_kind_of_call(
    control: Control, raw: bytes
) -> None:
    async with grpc.aio.insecure_channel(control.opened.address) as opened:
        channel: Any = opened
        calls = [
            channel.unary_unary("/baton.v1.JobControl/CreateJob")(raw),
            channel.unary_stream("/baton.v1.JobControl/WatchJob")(raw),
            channel.stream_unary("/baton.v1.JobControl/UploadInput")(iter([raw])),
        ]
        for call in calls:
            assert_told_plainly(await refused(call))


async def test_who_may_not_call_is_told_that_before_the_request_is_decoded(guarded_control: Control) -> None:
    async with grpc.aio.insecure_channel(guarded_control.opened.address) as opened:
        call: Any = opened.unary_unary("/baton.v1.JobControl/CreateJob")
        nobody = await refused(call(NO_MESSAGE[0]))
        reader = await refused(call(NO_MESSAGE[0], metadata=bearing("ada", "jobs.read")))
    assert nobody.code is grpc.StatusCode.UNAUTHENTICATED
    assert reader.code is grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.parametrize("raw", NO_MESSAGE)
async def test_a_frame_that_cannot_be_decoded_ends_its_session_as_invalid_input(
    database_url: str, redis_url: str, redis_prefix: str, raw: bytes
) -> None:
    async with (
        execution_running(database_url, redis_url, redis_prefix) as execution,
        grpc.aio.insecure_channel(execution.address) as opened,
    ):
        channel: Any = opened
        open_session = channel.stream_stream("/baton.v1.ExecutionService/OpenSession")
        assert_told_plainly(await refused(open_session(iter([raw]))))

        session = open_session()
        hello = pb.Hello(executor_name="raw", incarnation_id=str(uuid4()), capabilities=[SYNTHETIC])
        await session.write(pb.OpenSessionRequest(hello=hello).SerializeToString())
        assert pb.OpenSessionResponse.FromString(await session.read()).HasField("welcome")
        await session.write(raw)
        assert_told_plainly(await refused(session))
