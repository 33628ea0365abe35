"""`grpc.health.v1`: whether a service can do its work just now, and whether its process lives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from shared.rpc.calls import Context

LIVENESS = "liveness"
"""The name to ask for a probe that restarts: it depends on nothing but the process, also while draining."""
WHOLE_SERVER = ""

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVICE_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


class HealthGate:
    """Opens and closes the services together; a loop that looks after the database calls `set_serving`.

    Once draining, it stays closed.
    """

    def __init__(self, services: Sequence[str]) -> None:
        self._gated = (WHOLE_SERVER, *services)
        self._serving = True
        self._draining = False
        self._changed = asyncio.Condition()

    @property
    def serving(self) -> bool:
        return self._serving and not self._draining

    async def set_serving(self, serving: bool) -> None:
        """Say whether calls can be served; saying the same again does nothing."""
        async with self._changed:
            self._serving = serving
            self._changed.notify_all()

    async def drain(self) -> None:
        """Close for good, and end every watch, so that none of them holds up the stop."""
        async with self._changed:
            self._draining = True
            self._changed.notify_all()

    def statuses(self) -> Mapping[str, int]:
        gated = SERVING if self.serving else NOT_SERVING
        return {LIVENESS: SERVING, **dict.fromkeys(self._gated, gated)}

    def status(self, service: str) -> int:
        return self.statuses().get(service, SERVICE_UNKNOWN)

    async def changes(self, service: str) -> AsyncIterator[int]:
        """Yield the present status, then each new one, until the drain; of quick changes the last."""
        sent: int | None = None
        draining = False
        while not draining:
            async with self._changed:
                while self.status(service) == sent and not self._draining:
                    await self._changed.wait()
                status, draining = self.status(service), self._draining
            if status != sent:
                yield status
                sent = status


class HealthServicer(health_pb2_grpc.HealthServicer):
    """Written here because the library's own never ends a watch and lacks `List`."""

    def __init__(self, gate: HealthGate) -> None:
        self._gate = gate

    async def Check(
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> health_pb2.HealthCheckResponse:
        status = self._gate.status(request.service)
        if status == SERVICE_UNKNOWN:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such service")
        return _response(status)

    async def List(self, request: Any, context: Context) -> Any:
        statuses = {name: _response(status) for name, status in self._gate.statuses().items()}
        return health_pb2.HealthListResponse(statuses=statuses)  # type: ignore[attr-defined]  # not in the stubs

    async def Watch(
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> AsyncIterator[health_pb2.HealthCheckResponse]:
        async for status in self._gate.changes(request.service):
            yield _response(status)


def _response(status: int) -> health_pb2.HealthCheckResponse:
    response = health_pb2.HealthCheckResponse()
    response.status = status
    return response
