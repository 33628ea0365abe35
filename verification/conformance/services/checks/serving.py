"""What any gRPC service of the engine answers: health, reflection, and who may call."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.rpc.channel import call_metadata
from verification.conformance.services.check import Theme
from verification.conformance.services.refusals import refused
from verification.conformance.services.target import NotJudged, Target
from verification.peers.control import Refused
from verification.unmet import Unmet, require

_SECONDS_MAX = 10.0
_CONTROL = "baton.v1.JobControl"
_EXECUTION = "baton.v1.ExecutionService"


async def job_control_says_that_it_serves(target: Target) -> None:
    """The health of JobControl's server and of JobControl itself is SERVING; of others NOT_FOUND."""
    await _require_serving(target.channel, _CONTROL)


async def execution_service_says_that_it_serves(target: Target) -> None:
    """The health of ExecutionService's server and of itself is SERVING; of others NOT_FOUND."""
    await _require_serving(target.execution_channel, _EXECUTION)


async def job_control_describes_itself(target: Target) -> None:
    """Reflection, v1 and v1alpha, names JobControl and hands out its description, without a token."""
    await _require_described(target.channel, _CONTROL)


async def execution_service_describes_itself(target: Target) -> None:
    """Reflection, v1 and v1alpha, names ExecutionService and hands out its description, without a token."""
    await _require_described(target.execution_channel, _EXECUTION)


async def callers_without_a_token_are_refused(target: Target) -> None:
    """Where tokens are asked for, a call without one, or with one that nobody signed, is UNAUTHENTICATED."""
    if target.token is None:
        raise NotJudged("this service asks for no token")
    for token in (None, "nonsense", target.token[:-4] + "AAAA"):
        call = target.job_control.ListJobDefinitions(
            pb.ListJobDefinitionsRequest(), metadata=call_metadata(token)
        )
        answer = target.answered("ListJobDefinitions", call)
        await refused(answer, "UNAUTHENTICATED", when=f"{'a bad' if token else 'no'} token")


async def a_method_that_is_none_is_unimplemented(target: Target) -> None:
    """A method that no version has is UNIMPLEMENTED, and the connection goes on."""
    raw: Any = target.channel.unary_unary("/baton.v1.JobControl/NoSuchMethod")
    try:
        await target.answered("NoSuchMethod", raw(b"", metadata=target.metadata))
    except Refused as error:
        allowed = ("UNIMPLEMENTED", "PERMISSION_DENIED", "UNAUTHENTICATED")
        require(error.status in allowed, f"it is refused with {error}")
    else:
        raise Unmet("it is answered")
    await target.waiting_job()


async def _require_serving(channel: grpc.aio.Channel, service: str) -> None:
    stub: Any = health_pb2_grpc.HealthStub(channel)
    for name in ("", service):
        request = health_pb2.HealthCheckRequest(service=name)
        status = (await stub.Check(request, timeout=_SECONDS_MAX)).status
        require(status == health_pb2.HealthCheckResponse.SERVING, f"the health of {name!r} is {status}")
    try:
        await stub.Check(health_pb2.HealthCheckRequest(service="none.such"), timeout=_SECONDS_MAX)
    except grpc.aio.AioRpcError as error:
        require(error.code() is grpc.StatusCode.NOT_FOUND, f"an unknown name is {error.code().name}")
    else:
        raise Unmet("a name that is not there has a health")


async def _require_described(channel: grpc.aio.Channel, service: str) -> None:
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)  # type: ignore[arg-type]
    v1: Any = channel.stream_stream(
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
        response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
    )
    for version, method in (("v1alpha", stub.ServerReflectionInfo), ("v1", v1)):
        listed = await _asked(method, reflection_pb2.ServerReflectionRequest(list_services=""))
        names = [each.name for each in listed.list_services_response.service]
        require(service in names, f"{version} names {names}")
        wanted = reflection_pb2.ServerReflectionRequest(file_containing_symbol=service)
        found = await _asked(method, wanted)
        files = found.file_descriptor_response.file_descriptor_proto
        require(files, f"{version} has no description of {service}")


async def _asked(method: Any, request: reflection_pb2.ServerReflectionRequest) -> Any:
    call = method(iter([request]), timeout=_SECONDS_MAX)
    try:
        async with asyncio.timeout(_SECONDS_MAX):
            async for answer in call:
                return answer
    finally:
        call.cancel()
    raise Unmet("reflection does not answer")


THEME = Theme(
    "serving",
    (
        job_control_says_that_it_serves,
        job_control_describes_itself,
        callers_without_a_token_are_refused,
        a_method_that_is_none_is_unimplemented,
    ),
)
EXECUTION_THEME = Theme(
    "serving executors",
    (execution_service_says_that_it_serves, execution_service_describes_itself),
    executing=True,
)
