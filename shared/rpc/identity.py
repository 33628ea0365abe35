"""Who calls, and whether they may: a token or a client certificate, and a scope for each method.

Fails closed: a method that no service's table lists is refused, whoever calls. A call that carries a token
stands or falls by it; its connection's certificate counts for calls without one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import structlog

from shared.domain.errors import PermissionDenied, Unauthenticated
from shared.domain.scopes import ALL_SCOPES
from shared.rpc.calls import Call, CallInterceptor, Context, Proceed

EXEMPT_SERVICES = frozenset(
    {
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
    }
)
"""Probes and tools ask these before anyone could give them a token; they tell nothing about jobs."""

_SUBJECT_CHARACTERS_MAX = 200
_SCHEME = "bearer "


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a call.

    Attributes:
        subject: Of the token or the certificate; the owner of jobs, where no other is named.
        scopes: What the caller may do; unknown scopes are kept and mean nothing.
    """

    subject: str
    scopes: frozenset[str]

    def may(self, scope: str) -> bool:
        return scope in self.scopes


LOCAL_CALLER = Caller("local", ALL_SCOPES)
"""Everyone, where no identity is configured; the server listens on loopback only then."""

Verify: TypeAlias = Callable[[str], Awaitable[Caller]]
"""From a token to its caller.

Raises: Unauthenticated, saying nothing about the reason's inside; PlatformUnavailable if that can't be told.
"""

Peer: TypeAlias = Mapping[str, Iterable[bytes]]
"""What gRPC knows of the other end of a connection."""
Recognise: TypeAlias = Callable[[Peer], Caller]
"""From a connection's certificate to its caller. Raises: Unauthenticated."""


@dataclass(frozen=True, slots=True)
class KnownBy:
    """By what a server's callers are known; with neither, every caller is `LOCAL_CALLER`."""

    token: Verify | None = None
    certificate: Recognise | None = None

    async def caller(self, context: Context) -> Caller:
        """Say who calls.

        Raises:
            Unauthenticated: Nobody that is known.
            PlatformUnavailable: The keys that tell are out of reach.
        """
        if self.token is None and self.certificate is None:
            return LOCAL_CALLER
        values = [value for key, value in context.invocation_metadata() or () if key == "authorization"]
        if not values and self.certificate is not None:
            return self.certificate(context.auth_context())
        if self.token is None:
            raise Unauthenticated("callers are known by their certificates here: send no token")
        return await self.token(_bearer_token(values))


EVERYONE = KnownBy()

_caller: ContextVar[Caller] = ContextVar("caller")


def current_caller() -> Caller:
    """Say who makes the call that is being served.

    Raises:
        LookupError: No call is being served here, or its service is exempt from identity.
    """
    return _caller.get()


def method_scopes(service: str, scopes: Mapping[str, str]) -> Mapping[str, str]:
    """Turn a service's table, method name to scope, into one by path: `/baton.v1.JobControl/CreateJob`."""
    return MappingProxyType({f"/{service}/{method}": scope for method, scope in scopes.items()})


class IdentityInterceptor(CallInterceptor):
    """Lets a call through if its caller is known and has the method's scope."""

    def __init__(self, known_by: KnownBy, scopes: Mapping[str, str]) -> None:
        """`scopes` is by path."""
        self._known_by = known_by
        self._scopes = scopes

    async def around(self, call: Call, request: Any, context: Context, proceed: Proceed) -> Any:
        if call.service in EXEMPT_SERVICES:
            return await proceed(request, context)
        caller = await self._known_by.caller(context)
        structlog.contextvars.bind_contextvars(caller=caller.subject)
        scope = self._scopes.get(call.method)
        if scope is None or not caller.may(scope):
            raise PermissionDenied(scope)
        reset = _caller.set(caller)
        try:
            return await proceed(request, context)
        finally:
            _caller.reset(reset)


def is_subject(subject: object) -> bool:
    """Whether it can be somebody's name: not empty, not endless, and harmless in a log."""
    return isinstance(subject, str) and subject.isprintable() and 0 < len(subject) <= _SUBJECT_CHARACTERS_MAX


def _bearer_token(values: list[str | bytes]) -> str:
    """Find the one token of a call; two of them are as bad as none."""
    if len(values) != 1 or not isinstance(values[0], str) or not values[0].lower().startswith(_SCHEME):
        raise Unauthenticated
    return values[0][len(_SCHEME) :].strip()
