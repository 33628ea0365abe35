from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import grpc
import pytest
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2

from shared.rpc import server as rpc_server
from shared.rpc.calls import Context
from shared.rpc.channel import CLIENT_PING_SECONDS, PING_SECONDS_MIN, channel_options
from shared.rpc.health import LIVENESS, NOT_SERVING, SERVICE_UNKNOWN, SERVING
from shared.rpc.server import Entrance, open_server, serving
from shared.rpc.tokens import shared_secret
from shared.runtime.faults import StartupFault
from tests.support.four_kinds import NAME, four_kinds, running

SECRET = "a secret of this test, at least 32 bytes"
SETTING = "BATON_TOKEN_SECRET"


async def answering(context: Context) -> bytes:
    return b"answer"


def stub(channel: grpc.aio.Channel) -> Any:
    return health_pb2_grpc.HealthStub(channel)


def check(service: str) -> health_pb2.HealthCheckRequest:
    return health_pb2.HealthCheckRequest(service=service)


@pytest.mark.parametrize(
    "address", ["203.0.113.7:0", "no-such-host.invalid:0", "nonsense", "127.0.0.1:99999"]
)
async def test_an_address_that_can_not_be_had_is_one_line(address: str) -> None:
    with pytest.raises(StartupFault) as caught:
        open_server(
            address, [], entrance=Entrance(), message_bytes_max=1000, call_time_max=timedelta(seconds=1)
        )
    [line] = caught.value.faults
    assert line.startswith(f"can't listen on {address}")


async def test_a_drain_that_never_ends_is_cut_short() -> None:
    async def drain() -> None:
        await asyncio.Event().wait()

    opened = open_server(
        "127.0.0.1:0", [], entrance=Entrance(), message_bytes_max=1000, call_time_max=timedelta(seconds=1)
    )
    with structlog.testing.capture_logs() as lines:
        async with serving(opened, grace=timedelta(milliseconds=50), drain=drain):
            pass
    assert [line["event"] for line in lines][-2:] == ["server.drain_cut_short", "server.stopped"]


async def test_a_message_far_over_the_limit_is_cut_off_by_the_transport() -> None:
    async with running(answering, message_bytes_max=1000) as server:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.ask("UnaryUnary", bytes(10_000))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_second_server_on_the_same_port_is_refused_in_one_line() -> None:
    async with running(answering) as first:
        with pytest.raises(StartupFault) as caught:
            open_server(
                first.opened.address,
                [four_kinds(answering)],
                entrance=Entrance(),
                message_bytes_max=1000,
                call_time_max=timedelta(seconds=1),
            )
    assert caught.value.faults == (f"can't listen on {first.opened.address}: Address already in use",)


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_reflection_lists_the_services_without_a_token(version: str) -> None:
    async with running(answering, verify=shared_secret(SECRET, setting=SETTING)) as server:
        ask = server.channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )
        call = ask(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
        [response] = [each async for each in call]
    assert {each.name for each in response.list_services_response.service} == {
        NAME,
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
    }


async def test_health_is_checked_by_service_without_a_token() -> None:
    async with running(answering, verify=shared_secret(SECRET, setting=SETTING)) as server:
        for service in ("", NAME, LIVENESS):
            assert (await stub(server.channel).Check(check(service))).status == SERVING
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub(server.channel).Check(check("no.such.Service"))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_while_the_database_is_away_services_do_not_serve_and_the_process_lives() -> None:
    async with running(answering) as server:
        await server.opened.health.set_serving(False)
        response = await stub(server.channel).List(health_pb2.HealthListRequest())  # type: ignore[attr-defined]
        assert {name: each.status for name, each in response.statuses.items()} == {
            "": NOT_SERVING,
            NAME: NOT_SERVING,
            LIVENESS: SERVING,
        }
        await server.opened.health.set_serving(True)
        assert (await stub(server.channel).Check(check(NAME))).status == SERVING


async def test_a_watch_of_health_tells_each_change_and_nothing_twice() -> None:
    async with running(answering) as server:
        watch = stub(server.channel).Watch(check(NAME))
        assert (await watch.read()).status == SERVING
        await server.opened.health.set_serving(True)
        await server.opened.health.set_serving(False)
        assert (await watch.read()).status == NOT_SERVING
        await server.opened.health.set_serving(True)
        assert (await watch.read()).status == SERVING
        watch.cancel()


async def test_a_watch_of_an_unknown_service_says_so() -> None:
    async with running(answering) as server:
        watch = stub(server.channel).Watch(check("no.such.Service"))
        assert (await watch.read()).status == SERVICE_UNKNOWN
        watch.cancel()


async def test_a_stopping_server_says_so_first_then_drains_and_no_watch_holds_it_up() -> None:
    draining, drained = asyncio.Event(), asyncio.Event()

    async def drain() -> None:
        draining.set()
        await drained.wait()

    opened = open_server(
        "127.0.0.1:0",
        [four_kinds(answering)],
        entrance=Entrance(),
        message_bytes_max=1000,
        call_time_max=timedelta(seconds=1),
    )
    stop = asyncio.Event()

    async def serve() -> None:
        async with serving(opened, grace=timedelta(seconds=60), drain=drain):
            await stop.wait()

    served = asyncio.create_task(serve())
    async with grpc.aio.insecure_channel(opened.address) as channel:
        watch = stub(channel).Watch(check(NAME))
        assert (await watch.read()).status == SERVING
        stop.set()
        assert (await watch.read()).status == NOT_SERVING
        assert await watch.read() is grpc.aio.EOF
        await draining.wait()
        assert (await stub(channel).Check(check(LIVENESS))).status == SERVING
        await opened.health.set_serving(True)
        assert (await stub(channel).Check(check(NAME))).status == NOT_SERVING
        drained.set()
        await asyncio.wait_for(served, timeout=10)


def faster(options: Sequence[tuple[str, Any]], **seconds: float) -> list[tuple[str, Any]]:
    """The same options with some times shortened."""
    changes = {name.replace("__", "."): int(value * 1000) for name, value in seconds.items()}
    return [(name, changes.get(name, value)) for name, value in options]


@asynccontextmanager
async def a_quiet_stream(
    *, permitted_seconds: float, ping_seconds: float, closing: asyncio.Event
) -> AsyncIterator[Any]:
    """Open a stream on which nothing is sent until `closing`, but for the client's pings."""

    async def quiet(request: bytes, context: Context) -> None:
        await context.write(b"open")
        await closing.wait()
        await context.write(b"still open")

    server = grpc.aio.server(
        options=faster(
            rpc_server.server_options(message_bytes_max=1000),
            grpc__http2__min_ping_interval_without_data_ms=permitted_seconds,
        )
    )
    method: grpc.RpcMethodHandler[Any, Any] = grpc.unary_stream_rpc_method_handler(quiet)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Quiet", {"Wait": method}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    options = faster(channel_options(message_bytes_max=1000), grpc__keepalive_time_ms=ping_seconds)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        wait: Any = channel.unary_stream("/test.Quiet/Wait")
        call = wait(b"")
        assert await call.read() == b"open"
        yield call
    await server.stop(None)


async def test_a_quiet_stream_survives_pings_at_the_permitted_interval_and_more_often_is_cut() -> None:
    """Faster than the real intervals, but no more often than once a second, as the core allows.

    Pings can't be awaited, so the stream that is cut for as many of them is the clock of the one that is not.
    """
    ping = 1.0
    closing = asyncio.Event()
    async with a_quiet_stream(permitted_seconds=ping * 0.9, ping_seconds=ping, closing=closing) as permitted:
        for _ in range(2):
            async with a_quiet_stream(
                permitted_seconds=ping * 100, ping_seconds=ping, closing=closing
            ) as too_often:
                with pytest.raises(grpc.aio.AioRpcError, match=r"(?i)too.many.pings"):
                    await too_often.read()
        closing.set()
        assert await permitted.read() == b"still open"


def test_our_own_clients_ping_no_more_often_than_permitted() -> None:
    assert CLIENT_PING_SECONDS >= PING_SECONDS_MIN * 2
