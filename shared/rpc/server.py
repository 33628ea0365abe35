"""Sets a server up so that foreign clients, probes and operators find what they expect."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import grpc
import structlog
from grpc_health.v1 import health, health_pb2_grpc

from shared.rpc.call_log import CallLogInterceptor
from shared.rpc.channel import PING_SECONDS_MIN, PING_TIMEOUT_SECONDS
from shared.rpc.errors_interceptor import ErrorsInterceptor
from shared.rpc.health import HealthGate, HealthServicer
from shared.rpc.identity import EVERYONE, IdentityInterceptor, KnownBy, method_scopes
from shared.rpc.limits import DeadlineInterceptor, RequestSizeInterceptor
from shared.rpc.reflection import add_reflection
from shared.runtime.faults import StartupFault

log = structlog.get_logger(__name__)

_SERVER_PING_SECONDS = 10
"""How often the server asks a quiet connection; a vanished client is noticed after this and the time-out."""
_PORT_MAX = 65535
_TRANSPORT_HEADROOM = 1.25
"""The transport's limit over ours: what lies between is refused with a reason, what lies above is cut off."""


@dataclass(frozen=True, slots=True)
class Service:
    """One service and what may be done with it.

    Attributes:
        name: In full: `baton.v1.JobControl`.
        add_to: Adds its servicer to a server, as generated code does.
        scopes: Method name to the scope that a caller needs; a method that is left out is refused.
    """

    name: str
    add_to: Callable[[grpc.aio.Server], None]
    scopes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Entrance:
    """How a server is entered.

    Attributes:
        credentials: The server's certificate, and whether it asks for the callers'; None is plaintext.
    """

    known_by: KnownBy = EVERYONE
    credentials: grpc.ServerCredentials | None = None


@dataclass(frozen=True, slots=True)
class OpenServer:
    """A server that holds its address and does not serve yet.

    Attributes:
        address: Where it listens, with the real port where 0 was asked for.
        health: To be closed while the database is away.
    """

    server: grpc.aio.Server
    address: str
    health: HealthGate


def open_server(
    address: str,
    services: Sequence[Service],
    *,
    entrance: Entrance,
    message_bytes_max: int,
    call_time_max: timedelta,
) -> OpenServer:
    """Build a server with health, reflection and the interceptors, and bind its address.

    Args:
        entrance: See `shared.rpc.entrance`.
        message_bytes_max: Of a request, and of each frame of a stream.
        call_time_max: For unary calls whose caller set no deadline.

    Raises:
        StartupFault: The address can't be had.
    """
    names = [service.name for service in services]
    scopes = {
        path: scope
        for service in services
        for path, scope in method_scopes(service.name, service.scopes).items()
    }
    server = grpc.aio.server(
        interceptors=(
            CallLogInterceptor(),
            ErrorsInterceptor(),
            DeadlineInterceptor(call_time_max),
            IdentityInterceptor(entrance.known_by, scopes),
            RequestSizeInterceptor(message_bytes_max),
        ),
        options=server_options(message_bytes_max=message_bytes_max),
    )
    for service in services:
        service.add_to(server)
    gate = HealthGate(names)
    health_pb2_grpc.add_HealthServicer_to_server(HealthServicer(gate), server)
    add_reflection(server, [*names, health.SERVICE_NAME])
    return OpenServer(server, _bind(server, address, entrance.credentials), gate)


def server_options(*, message_bytes_max: int) -> Sequence[tuple[str, int]]:
    transport_bytes_max = int(message_bytes_max * _TRANSPORT_HEADROOM)
    return (
        # Else a second server binds the same port in silence and takes half the calls.
        ("grpc.so_reuseport", 0),
        ("grpc.keepalive_time_ms", _SERVER_PING_SECONDS * 1000),
        ("grpc.keepalive_timeout_ms", PING_TIMEOUT_SECONDS * 1000),
        # Without it a dead peer goes unnoticed for a minute, whatever the keepalive says.
        ("grpc.http2.ping_timeout_ms", PING_TIMEOUT_SECONDS * 1000),
        ("grpc.http2.min_ping_interval_without_data_ms", PING_SECONDS_MIN * 1000),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.max_receive_message_length", transport_bytes_max),
        ("grpc.max_send_message_length", transport_bytes_max),
    )


@asynccontextmanager
async def serving(
    opened: OpenServer, *, grace: timedelta, drain: Callable[[], Awaitable[None]] | None = None
) -> AsyncIterator[None]:
    """Serve inside the block; at its end drain, then stop.

    Health says NOT_SERVING first. Then `drain` runs, which tells open streams to end: stopping alone would
    wait the whole grace for an endless stream. Both share `grace`; what still runs after it is cancelled.
    """
    await opened.server.start()
    log.info("server.started", address=opened.address)
    try:
        yield
    finally:
        await _stop(opened, grace, drain)


async def _stop(opened: OpenServer, grace: timedelta, drain: Callable[[], Awaitable[None]] | None) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + grace.total_seconds()
    await opened.health.drain()
    log.info("server.draining", address=opened.address, grace_s=grace.total_seconds())
    try:
        if drain is not None:
            async with asyncio.timeout_at(end):
                await drain()
    except TimeoutError:
        log.warning("server.drain_cut_short", address=opened.address)
    finally:
        await opened.server.stop(max(0.0, end - loop.time()))
        log.info("server.stopped", address=opened.address)


def _bind(server: grpc.aio.Server, address: str, credentials: grpc.ServerCredentials | None) -> str:
    try:
        _try_to_bind(address)
        if credentials is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, credentials)
    except OSError as error:
        raise StartupFault(f"can't listen on {address}: {error.strerror}") from None
    except RuntimeError:  # gRPC's own, which has written the reason on standard error
        raise StartupFault(f"can't listen on {address}") from None
    if address.startswith("unix:"):
        return address
    return f"{address.rpartition(':')[0]}:{port}"


def _try_to_bind(address: str) -> None:
    """Find out why an address can't be had: gRPC tells it to standard error only.

    Raises:
        OSError: With the system's own sentence.
    """
    if address.startswith("unix:"):
        return
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or int(port) > _PORT_MAX:  # gRPC would take another port, in silence
        raise OSError(errno.EINVAL, f"it does not end in a port from 0 to {_PORT_MAX}")
    [(family, kind, protocol, _, target), *_] = socket.getaddrinfo(
        host.strip("[]") or None, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(target)
