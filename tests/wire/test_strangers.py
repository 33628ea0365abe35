"""Whoever is not known gets no answer, whatever method is asked."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import grpc
import jwt

from job_api.rpc.job_control_servicer import SCOPES
from job_worker.rpc.execution_servicer import SCOPES as EXECUTION_SCOPES
from shared.domain.scopes import ALL_SCOPES
from shared.gen.baton.v1 import execution_service_pb2 as execution_pb
from shared.rpc.channel import call_metadata
from tests.support.control_service import SECRET, Control, bearing, refused, request_of
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


async def test_no_method_answers_a_stranger(guarded_control: Control) -> None:
    for name, metadata in strangers().items():
        for method in SCOPES:
            refusal = await refused(
                getattr(guarded_control.stub, method)(request_of(method), metadata=metadata)
            )
            assert refusal.code is grpc.StatusCode.UNAUTHENTICATED, (method, name)
            assert refusal.reason == "UNAUTHENTICATED"


def _execution_request(method: str) -> Any:
    message = getattr(execution_pb, f"{method}Request")()
    return iter([message]) if method == "OpenSession" else message


async def test_no_method_for_executors_answers_a_stranger_or_a_caller_without_the_scope(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    methods = execution_pb.DESCRIPTOR.services_by_name["ExecutionService"].methods_by_name
    assert set(EXECUTION_SCOPES) == set(methods)
    async with execution_running(database_url, redis_url, redis_prefix, token_secret=SECRET) as execution:
        for method, scope in EXECUTION_SCOPES.items():
            ask = getattr(execution.stub, method)
            for name, metadata in strangers().items():
                refusal = await refused(ask(_execution_request(method), metadata=metadata))
                assert refusal.code is grpc.StatusCode.UNAUTHENTICATED, (method, name)
            weak = bearing("ada", *(ALL_SCOPES - {scope}))
            refusal = await refused(ask(_execution_request(method), metadata=weak))
            assert refusal.code is grpc.StatusCode.PERMISSION_DENIED, method
            assert refusal.metadata == {"scope": scope}, method
