from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from shared.domain.errors import PermissionDenied, Unauthenticated
from shared.domain.scopes import ALL_SCOPES
from shared.rpc.calls import Context
from shared.rpc.channel import call_metadata
from shared.rpc.identity import Caller, current_caller
from shared.rpc.status import rich_status
from shared.rpc.tokens import shared_secret, signed_token
from shared.runtime.faults import StartupFault
from tests.support.four_kinds import KINDS, running
from tests.support.token_keys import the_key

SECRET = "a secret of this test, at least 32 bytes"
VERIFY = shared_secret(SECRET, setting="BATON_TOKEN_SECRET")
every_kind = pytest.mark.parametrize("kind", KINDS)


def token(*, secret: str = SECRET, algorithm: str = "HS256", **claims: Any) -> str:
    defaults = {"sub": "ada", "scopes": ["jobs.read"], "exp": time.time() + 60}
    present = {name: value for name, value in (defaults | claims).items() if value is not None}
    return jwt.encode(present, secret, algorithm=algorithm)


async def who(context: Context) -> bytes:
    caller = current_caller()
    return f"{caller.subject}: {' '.join(sorted(caller.scopes))}".encode()


@every_kind
async def test_the_servicer_knows_who_calls(kind: str) -> None:
    async with running(who, verify=VERIFY) as server:
        responses = await server.ask(kind, metadata=tuple(call_metadata(token())))
    assert responses[-1] == b"ada: jobs.read"


@every_kind
async def test_without_a_secret_everyone_is_local_and_may_do_everything(kind: str) -> None:
    async with running(who) as server:
        responses = await server.ask(kind)
    assert responses[-1].decode() == f"local: {' '.join(sorted(ALL_SCOPES))}"


@every_kind
async def test_a_call_without_a_token_is_refused(kind: str) -> None:
    async with running(who, verify=VERIFY) as server:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.ask(kind)
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


@every_kind
async def test_a_caller_without_the_methods_scope_is_refused_and_told_which(kind: str) -> None:
    weak = tuple(call_metadata(token(scopes=["jobs.execute"])))
    async with running(who, verify=VERIFY) as server:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.ask(kind, metadata=weak)
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert caught.value.details() == rich_status(PermissionDenied("jobs.read")).message


@every_kind
@pytest.mark.parametrize("verify", [None, VERIFY], ids=["local", "with a token"])
async def test_a_method_that_no_table_lists_is_refused_to_everyone(kind: str, verify: Any) -> None:
    strong = tuple(call_metadata(token(scopes=sorted(ALL_SCOPES))))
    async with running(who, verify=verify, scopes={}) as server:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.ask(kind, metadata=strong)
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_a_method_that_does_not_exist_is_unimplemented() -> None:
    async with running(who, verify=VERIFY) as server:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.ask("NoSuchMethod")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(token(secret="another secret, just as long as the first"), id="another secret"),
        pytest.param(token(exp=time.time() - 3600), id="expired"),
        pytest.param(token(exp=None), id="no expiry"),
        pytest.param(token(sub=None), id="no subject"),
        pytest.param(token(sub=""), id="empty subject"),
        pytest.param(token(sub="a\x00b"), id="unprintable subject"),
        pytest.param(token(sub="a" * 201), id="endless subject"),
        pytest.param(token(scopes="jobs.read"), id="scopes that are no list"),
        pytest.param(token(scopes=[1]), id="scopes that are no words"),
        pytest.param(token(aud="somewhere else"), id="meant for somewhere else"),
        pytest.param(token(nbf=time.time() + 3600), id="not valid yet"),
        pytest.param(token(secret="", algorithm="none"), id="unsigned"),
        pytest.param(token(secret=SECRET * 2, algorithm="HS512"), id="another algorithm"),
        pytest.param("nonsense", id="nonsense"),
        pytest.param("", id="empty"),
    ],
)
async def test_a_token_that_proves_nothing_is_refused(bad: str) -> None:
    async with running(who, verify=VERIFY) as server:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.ask("UnaryUnary", metadata=tuple(call_metadata(bad)))
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert "InvalidTokenError" not in repr(caught.value)


async def test_clocks_may_be_half_a_minute_apart() -> None:
    just_expired = tuple(call_metadata(token(exp=time.time() - 20)))
    async with running(who, verify=VERIFY) as server:
        assert await server.ask("UnaryUnary", metadata=just_expired) == [b"ada: jobs.read"]


async def test_scopes_may_be_words_in_one_claim() -> None:
    words = tuple(call_metadata(token(scopes=None, scope="jobs.read jobs.write")))
    async with running(who, verify=VERIFY) as server:
        assert await server.ask("UnaryUnary", metadata=words) == [b"ada: jobs.read jobs.write"]


async def test_two_tokens_are_as_bad_as_none() -> None:
    two = (*call_metadata(token()), *call_metadata(token(sub="eve")))
    async with running(who, verify=VERIFY) as server:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.ask("UnaryUnary", metadata=two)
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_calls_do_not_see_each_others_callers() -> None:
    async with running(who, verify=VERIFY) as server:
        for subject in ("ada", "bob", "ada"):
            metadata = tuple(call_metadata(token(sub=subject)))
            assert await server.ask("UnaryUnary", metadata=metadata) == [f"{subject}: jobs.read".encode()]


def test_a_secret_that_could_be_found_by_trying_is_refused() -> None:
    with pytest.raises(StartupFault, match="BATON_TOKEN_SECRET"):
        shared_secret("hunter2", setting="BATON_TOKEN_SECRET")


def test_a_public_key_is_no_secret() -> None:
    key = the_key().private_key.public_key()
    public = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    with pytest.raises(StartupFault, match="BATON_TOKEN_SECRET is a key or certificate"):
        shared_secret(public, setting="BATON_TOKEN_SECRET")


def test_no_one_calls_where_no_call_is_served() -> None:
    with pytest.raises(LookupError):
        current_caller()


async def test_a_token_that_the_engine_signed_itself_is_let_through_until_it_expires() -> None:
    now, lifetime = datetime.now(UTC), timedelta(days=1)
    fresh = signed_token(SECRET, subject="me", scopes={"jobs.execute"}, now=now, lifetime=lifetime)
    old = signed_token(
        SECRET, subject="me", scopes={"jobs.execute"}, now=now - 2 * lifetime, lifetime=lifetime
    )

    assert await VERIFY(fresh) == Caller("me", frozenset({"jobs.execute"}))
    with pytest.raises(Unauthenticated, match="expired"):
        await VERIFY(old)


async def test_a_token_whose_signers_clock_is_ahead_counts_until_its_end() -> None:
    early = tuple(call_metadata(token(iat=time.time() + 3600, exp=time.time() + 7200)))
    async with running(who, verify=VERIFY) as server:
        assert await server.ask("UnaryUnary", metadata=early) == [b"ada: jobs.read"]
