"""Who calls, and whether they may: bearer tokens, and a scope for each method.

Fails closed: a method that no service's table lists is refused, whoever calls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, TypeAlias

import jwt
import structlog

from shared.domain.errors import PermissionDenied, Unauthenticated
from shared.domain.scopes import ALL_SCOPES
from shared.rpc.calls import Call, CallInterceptor, Context, Proceed
from shared.runtime.faults import StartupFault

EXEMPT_SERVICES = frozenset(
    {
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
    }
)
"""Probes and tools ask these before anyone could give them a token; they tell nothing about jobs."""

SECRET_BYTES_MIN = 32
"""As long as the hash of HS256 (RFC 7518, 3.2)."""
CLOCK_LEEWAY = timedelta(seconds=30)
"""How far the clock that signed a token may be ahead of or behind ours."""
_SUBJECT_CHARACTERS_MAX = 200
_SCHEME = "bearer "


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a call.

    Attributes:
        subject: The token's subject; the owner of jobs, where no other is named.
        scopes: What the token allows; unknown scopes are kept and mean nothing.
    """

    subject: str
    scopes: frozenset[str]

    def may(self, scope: str) -> bool:
        return scope in self.scopes


LOCAL_CALLER = Caller("local", ALL_SCOPES)
"""Everyone, where no secret is configured; the server listens on loopback only then."""

Verify: TypeAlias = Callable[[str], Caller]
"""From a token to its caller. Raises: Unauthenticated, saying nothing about the reason's inside."""

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


def shared_secret(secret: str, *, setting: str) -> Verify:
    """Verify tokens that are signed with `secret` (HS256), have a subject and have not expired.

    Args:
        setting: The environment variable that holds the secret.

    Raises:
        StartupFault: The secret is short enough to be found by trying.
    """
    if len(secret.encode()) < SECRET_BYTES_MIN:
        raise StartupFault(f"{setting} is too short: at least {SECRET_BYTES_MIN} bytes are needed")

    def verify(token: str) -> Caller:
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                secret,
                algorithms=["HS256"],
                leeway=CLOCK_LEEWAY,
                # When it was signed decides nothing, and the signer's clock may be ahead of ours.
                options={"require": ["sub", "exp"], "verify_iat": False},
            )
        except jwt.ExpiredSignatureError:
            raise Unauthenticated("the token has expired") from None
        except jwt.InvalidTokenError:
            raise Unauthenticated from None
        return Caller(_subject(claims), _scopes(claims))

    return verify


def signed_token(
    secret: str, *, subject: str, scopes: Collection[str], now: datetime, lifetime: timedelta
) -> str:
    """Sign a token that `shared_secret` of the same secret lets through until its life is over."""
    claims = {"sub": subject, "scopes": sorted(scopes), "iat": now, "exp": now + lifetime}
    return jwt.encode(claims, secret, algorithm="HS256")


class IdentityInterceptor(CallInterceptor):
    """Lets a call through if its caller is known and has the method's scope."""

    def __init__(self, verify: Verify | None, scopes: Mapping[str, str]) -> None:
        """`scopes` is by path; without `verify` every caller is `LOCAL_CALLER`."""
        self._verify = verify
        self._scopes = scopes

    async def around(self, call: Call, request: Any, context: Context, proceed: Proceed) -> Any:
        if call.service in EXEMPT_SERVICES:
            return await proceed(request, context)
        caller = LOCAL_CALLER if self._verify is None else self._verify(_bearer_token(context))
        structlog.contextvars.bind_contextvars(caller=caller.subject)
        scope = self._scopes.get(call.method)
        if scope is None or not caller.may(scope):
            raise PermissionDenied(scope)
        reset = _caller.set(caller)
        try:
            return await proceed(request, context)
        finally:
            _caller.reset(reset)


def _bearer_token(context: Context) -> str:
    """Find the one token of a call; two of them are as bad as none."""
    values = [value for key, value in context.invocation_metadata() or () if key == "authorization"]
    if len(values) != 1 or not isinstance(values[0], str) or not values[0].lower().startswith(_SCHEME):
        raise Unauthenticated
    return values[0][len(_SCHEME) :].strip()


def _subject(claims: Mapping[str, Any]) -> str:
    subject = claims["sub"]
    if not isinstance(subject, str) or not subject.isprintable():
        raise Unauthenticated
    if not 0 < len(subject) <= _SUBJECT_CHARACTERS_MAX:
        raise Unauthenticated
    return subject


def _scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    """Read `scopes`, a list, or else `scope`, words with spaces between (RFC 8693)."""
    scopes = claims.get("scopes")
    if scopes is None:
        scope = claims.get("scope", "")
        scopes = scope.split() if isinstance(scope, str) else None
    if not isinstance(scopes, list) or not all(isinstance(each, str) for each in scopes):
        raise Unauthenticated
    return frozenset(scopes)
