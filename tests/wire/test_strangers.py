"""Whoever is not known gets no answer, whatever method is asked."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import grpc
import jwt
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

from job_api.rpc.job_control_servicer import SCOPES
from job_worker.rpc.execution_servicer import SCOPES as EXECUTION_SCOPES
from shared.domain.scopes import ALL_SCOPES
from shared.gen.baton.v1 import execution_service_pb2 as execution_pb
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.rpc.channel import call_metadata
from tests.support.control_service import SECRET, Control, bearing, refused
from tests.support.execution_service import execution_running


def strangers() -> Mapping[str, Any]:
    """Metadata of calls that nobody known makes."""
    claims = {"sub": "ada", "scopes": sorted(ALL_SCOPES), "exp": time.time() + 60}
    good = jwt.encode(claims, SECRET, algorithm="HS256")
    tokens = {
        "expired": jwt.encode(claims | {"exp": time.time() - 3600}, SECRET, algorithm="HS256"),
        "foreign": jwt.encode(claims, SECRET[::-1], algorithm="HS256"),
        "unsigned": jwt.encode(claims, None, algorithm="none"),  # type: ignore[arg-type]
        "garbled": good[:-8] + good[-8:][::-1],
        "cut off": good[:-1],
        "garbage": "garbage",
    }
    known = tuple(call_metadata(good))
    return {
        **{name: tuple(call_metadata(token)) for name, token in tokens.items()},
        "none": (),
        "twice": known * 2,
        "another scheme": (("authorization", f"Basic {good}"),),
        "no scheme": (("authorization", good),),
    }


def _asked(stub: Any, service: ServiceDescriptor, method: str, metadata: Any) -> Any:
    """Call a method with an empty request; where requests are a stream, with none.

    Of a refusal that arrives while a request is written, grpc.aio makes an "Internal error from Core".
    """
    asked = service.methods_by_name[method]
    request = None if asked.client_streaming else GetMessageClass(asked.input_type)()
    return getattr(stub, method)(request, metadata=metadata)


async def test_no_method_answers_a_stranger(guarded_control: Control) -> None:
    service = pb.DESCRIPTOR.services_by_name["JobControl"]
    for name, metadata in strangers().items():
        for method in SCOPES:
            refusal = await refused(_asked(guarded_control.stub, service, method, metadata))
            assert refusal.code is grpc.StatusCode.UNAUTHENTICATED, (method, name)
            assert refusal.reason == "UNAUTHENTICATED"


async def test_no_method_for_executors_answers_a_stranger_or_a_caller_without_the_scope(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    service = execution_pb.DESCRIPTOR.services_by_name["ExecutionService"]
    assert set(EXECUTION_SCOPES) == set(service.methods_by_name)
    async with execution_running(database_url, redis_url, redis_prefix, token_secret=SECRET) as execution:
        for method, scope in EXECUTION_SCOPES.items():
            for name, metadata in strangers().items():
                refusal = await refused(_asked(execution.stub, service, method, metadata))
                assert refusal.code is grpc.StatusCode.UNAUTHENTICATED, (method, name)
            weak = bearing("ada", *(ALL_SCOPES - {scope}))
            refusal = await refused(_asked(execution.stub, service, method, weak))
            assert refusal.code is grpc.StatusCode.PERMISSION_DENIED, method
            assert refusal.metadata == {"scope": scope}, method
