from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import grpc
import pytest
import structlog
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from shared.domain import errors
from shared.domain.identity import JobId
from shared.rpc.calls import Context
from tests.support.four_kinds import KINDS, Act, running

every_kind = pytest.mark.parametrize("kind", [*KINDS, "WrittenStream"])
JOB = JobId(UUID(int=4711))
SECRET = "postgresql://baton:hunter2@db/jobs"


def raising(error: Exception) -> Act:
    async def act(context: Context) -> bytes:
        raise error

    return act


async def answering(context: Context) -> bytes:
    return b"answer"


def info_of(error: grpc.aio.AioRpcError) -> error_details_pb2.ErrorInfo:
    status = rpc_status.from_call(error)  # type: ignore[arg-type]
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    return info


@every_kind
async def test_a_call_without_an_error_is_left_as_it_is(kind: str) -> None:
    async with running(answering) as server:
        responses = await server.ask(kind)
    assert responses == ([b"first", b"answer"] if kind.endswith("Stream") else [b"answer"])


@every_kind
async def test_an_error_of_the_engine_arrives_with_its_status_and_reason(kind: str) -> None:
    async with running(raising(errors.JobNotFound(JOB))) as server:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.ask(kind)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert caught.value.details() == f"there is no job {JOB}"
    assert info_of(caught.value).reason == "JOB_NOT_FOUND"
    assert dict(info_of(caught.value).metadata) == {"job_id": str(JOB)}


@every_kind
async def test_a_bug_tells_the_caller_a_reference_and_the_log_the_rest(kind: str) -> None:
    with structlog.testing.capture_logs() as lines:
        async with running(raising(RuntimeError(SECRET))) as server:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await server.ask(kind)
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert SECRET not in repr(caught.value)
    [crash] = [line for line in lines if line["event"] == "call.crashed"]
    assert caught.value.details() == f"internal error, ref {crash['ref']}"
    assert SECRET in str(crash["exc_info"])
    assert crash["exc_info"].__traceback__ is not None


async def test_what_was_streamed_before_an_error_arrives_before_it() -> None:
    async with running(raising(errors.LeaseLost(JOB))) as server:
        call = server.start("StreamStream")
        assert await call.read() == b"first"
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
    assert info_of(caught.value).reason == "LEASE_LOST"


@every_kind
async def test_an_error_inside_task_groups_is_found(kind: str) -> None:
    async def act(context: Context) -> bytes:
        async with asyncio.TaskGroup() as outer:
            outer.create_task(inner())
        return b""

    async def inner() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(lose())

    async def lose() -> None:
        raise errors.LeaseLost(JOB)

    async with running(act) as server:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.ask(kind)
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION


async def test_a_bug_beside_an_error_of_the_engine_is_reported_as_a_bug() -> None:
    group = ExceptionGroup("both", [errors.LeaseLost(JOB), KeyError("a bug")])
    async with running(raising(group)) as server:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.ask("UnaryUnary")
    assert caught.value.code() is grpc.StatusCode.INTERNAL


@every_kind
async def test_an_abort_of_the_servicer_passes_as_it_is(kind: str) -> None:
    async def act(context: Context) -> bytes:
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "not here")

    async with running(act) as server:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.ask(kind)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert caught.value.details() == "not here"


async def test_an_abort_inside_a_task_group_passes_too() -> None:
    async def act(context: Context) -> bytes:
        async with asyncio.TaskGroup() as group:
            group.create_task(abort(context))
        return b""

    async def abort(context: Context) -> None:
        await context.abort(grpc.StatusCode.ABORTED, "once more")

    async with running(act) as server:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.ask("UnaryUnary")
    assert caught.value.code() is grpc.StatusCode.ABORTED


@every_kind
async def test_a_caller_that_leaves_cancels_the_servicer_and_crashes_nothing(kind: str) -> None:
    reached, left = asyncio.Event(), asyncio.Event()

    async def act(context: Context) -> bytes:
        reached.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            left.set()
            raise
        return b""

    with structlog.testing.capture_logs() as lines:
        async with running(act) as server:
            call = server.start(kind)
            await reached.wait()
            call.cancel()
            await asyncio.wait_for(left.wait(), timeout=5)
    assert [line for line in lines if line["event"] == "call.crashed"] == []


@every_kind
async def test_awaiting_something_that_was_cancelled_does_not_leave_the_caller_waiting(
    kind: str,
) -> None:
    async def act(context: Context) -> bytes:
        other = asyncio.create_task(asyncio.Event().wait())
        other.cancel()
        await other
        return b""

    async with running(act) as server:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.ask(kind)
    assert caught.value.code() is grpc.StatusCode.INTERNAL


async def test_a_unary_call_without_a_deadline_gets_the_servers() -> None:
    async def act(context: Context) -> bytes:
        await asyncio.Event().wait()
        return b""

    async with running(act, call_time_max=timedelta(milliseconds=50)) as server:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.ask("UnaryUnary")
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert "the server's limit" in (caught.value.details() or "")


async def test_a_callers_own_longer_deadline_stands() -> None:
    started = asyncio.get_running_loop().time()

    async def act(context: Context) -> bytes:
        # The server's limit passes meanwhile; nothing else tells that it was not applied.
        await asyncio.sleep(0.1)
        return b"late"

    async with running(act, call_time_max=timedelta(milliseconds=20)) as server:
        call: Any = server.channel.unary_unary("/baton.test.FourKinds/UnaryUnary")
        assert await call(b"", timeout=20) == b"late"
    assert asyncio.get_running_loop().time() - started >= 0.1


async def test_a_time_out_inside_a_servicer_is_a_bug_and_not_the_deadline() -> None:
    async with running(raising(TimeoutError(SECRET))) as server:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.ask("UnaryUnary")
    assert caught.value.code() is grpc.StatusCode.INTERNAL


@pytest.mark.parametrize("kind", ["UnaryUnary", "UnaryStream"])
async def test_a_request_that_is_too_large_is_told_so_and_not_to_try_again(kind: str) -> None:
    async with running(answering, message_bytes_max=1000) as server:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.ask(kind, bytes(1001))
        assert (await server.ask(kind, bytes(1000)))[-1] == b"answer"
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert info_of(caught.value).reason == "PAYLOAD_TOO_LARGE"
    assert info_of(caught.value).metadata["actual_bytes"] == "1001"


async def test_a_call_keeps_the_request_id_that_its_caller_gave() -> None:
    seen: dict[str, Any] = {}

    async def act(context: Context) -> bytes:
        seen.update(structlog.contextvars.get_contextvars())
        return b""

    async with running(act) as server:
        call = server.start("UnaryUnary", metadata=(("x-request-id", "order-17"),))
        await call
        assert dict(await call.trailing_metadata())["x-request-id"] == "order-17"
    assert seen["request_id"] == "order-17"
    assert seen["method"] == "/baton.test.FourKinds/UnaryUnary"


async def test_a_call_without_a_usable_request_id_gets_one_of_its_own() -> None:
    async with running(answering) as server:
        call = server.start("UnaryUnary", metadata=(("x-request-id", "two words"),))
        await call
        given = dict(await call.trailing_metadata())["x-request-id"]
    assert "two words" not in str(given)


async def test_a_refused_call_is_one_line_with_its_reason() -> None:
    with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        async with running(raising(errors.JobNotFound(JOB))) as server:
            with pytest.raises(grpc.aio.AioRpcError):
                await server.ask("UnaryUnary")
    [line] = [line for line in lines if line["event"] == "call.failed"]
    assert (line["code"], line["reason"]) == ("NOT_FOUND", "JOB_NOT_FOUND")
