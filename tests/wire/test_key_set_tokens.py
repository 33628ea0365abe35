"""Tokens that a private key signs, and all that must not pass for one."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from pathlib import Path
from typing import Any

import grpc
import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from shared.rpc.calls import Context
from shared.rpc.channel import call_metadata
from shared.rpc.identity import Caller, Verify, current_caller
from shared.rpc.key_files import KeyFile
from shared.rpc.key_sets import SigningKey
from shared.rpc.tokens import NOTHING_MORE, Expected, key_set
from shared.runtime.faults import StartupFault
from tests.support.four_kinds import KINDS as CALLS
from tests.support.four_kinds import running
from tests.support.token_keys import KINDS, a_key, document, pem, signed, the_key

every_call = pytest.mark.parametrize("call", CALLS)


async def who(context: Context) -> bytes:
    caller = current_caller()
    return f"{caller.subject}: {' '.join(sorted(caller.scopes))}".encode()


class Ticks:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def verifying(
    path: Path,
    *keys: SigningKey | dict[str, Any],
    expected: Expected = NOTHING_MORE,
    ticks: Ticks | None = None,
) -> Verify:
    path.write_bytes(document(*keys))
    monotonic = ticks or Ticks()
    return key_set(KeyFile(path, setting="BATON_TOKEN_KEYS_FILE", monotonic=monotonic), expected=expected)


def put(path: Path, content: bytes | None) -> None:
    """Put a file in place as deployments do, by a rename; None takes it away."""
    if content is None:
        path.unlink(missing_ok=True)
        return
    path.with_suffix(".new").write_bytes(content)
    path.with_suffix(".new").replace(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


@every_call
@pytest.mark.parametrize(("algorithm", "kind"), KINDS.items(), ids=KINDS)
async def test_each_kind_of_key_verifies_its_algorithms(
    call: str, algorithm: str, kind: str, path: Path
) -> None:
    key = the_key(kind)
    jwk = {name: value for name, value in key.public_jwk.items() if name != "alg"}
    token = signed(key, algorithm=algorithm)
    async with running(who, verify=verifying(path, jwk, the_key("ed25519"))) as server:
        responses = await server.ask(call, metadata=tuple(call_metadata(token)))
    assert responses[-1] == b"ada: jobs.read"


def by_hand(header: dict[str, Any], secret: bytes) -> str:
    """Sign with HMAC whatever the header says, as a library would refuse to."""
    claims = {"sub": "eve", "scopes": ["jobs.admin"], "exp": time.time() + 60}
    signing_input = b".".join(_encoded(json.dumps(each).encode()) for each in (header, claims))
    signature = hmac.new(secret, signing_input, hashlib.sha256).digest()
    return b".".join((signing_input, _encoded(signature))).decode()


def _encoded(value: bytes) -> bytes:
    return base64.urlsafe_b64encode(value).rstrip(b"=")


def bad_tokens() -> dict[str, str]:
    rsa, edwards = the_key("rsa"), the_key("ed25519")
    public = rsa.private_key.public_key()
    public_pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    public_der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    unsigned = jwt.encode({"sub": "eve", "exp": time.time() + 60}, None, algorithm="none")  # type: ignore[arg-type]
    altered = signed(rsa).split(".")
    altered[1] = signed(rsa, sub="eve").split(".")[1]
    return {
        "unsigned": unsigned,
        "unsigned by a known key's name": by_hand({"alg": "none", "kid": rsa.key_id}, b""),
        "a public key taken for a secret": by_hand({"alg": "HS256", "kid": rsa.key_id}, public_pem),
        "a public key's bytes taken for a secret": by_hand({"alg": "HS256", "kid": rsa.key_id}, public_der),
        "an algorithm that the key names not": signed(rsa, algorithm="PS256"),
        "a longer hash": signed(rsa, algorithm="RS512"),
        "a key of the same name": signed(a_key("ed25519"), header={"kid": edwards.key_id}),
        "another kind of key under a known name": signed(edwards, header={"kid": rsa.key_id}),
        "an unknown key": signed(a_key("ec")),
        "no key named, of several": signed(rsa, header={"kid": None}),
        "a key inside the token": signed(
            a_key("ed25519"), header={"kid": None, "jwk": dict(a_key().public_jwk)}
        ),
        "an unknown critical header": signed(rsa, header={"crit": ["b64x"], "b64x": 1}),
        "altered": ".".join(altered),
        "expired": signed(rsa, exp=time.time() - 3600),
        "not valid yet": signed(rsa, nbf=time.time() + 3600),
        "no expiry": signed(rsa, exp=None),
        "no subject": signed(rsa, sub=None),
        "meant for somewhere": signed(rsa, aud="somewhere"),
        "deep": f"{_encoded(b'[' * 5000).decode()}.e30.e30",
        "endless": "e" * 7000,
        "nonsense": "nonsense",
        "empty": "",
    }


@pytest.mark.parametrize("name", list(bad_tokens()))
async def test_a_token_that_proves_nothing_is_refused(name: str, path: Path) -> None:
    token = bad_tokens()[name]
    async with running(who, verify=verifying(path, the_key("rsa"), the_key("ed25519"))) as server:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.ask("UnaryUnary", metadata=tuple(call_metadata(token)))
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_a_token_may_leave_its_key_unnamed_where_there_is_one(path: Path) -> None:
    verify = verifying(path, the_key())
    assert await verify(signed(the_key(), header={"kid": None})) == Caller("ada", frozenset({"jobs.read"}))


async def test_a_key_without_a_name_verifies_where_it_is_alone(path: Path) -> None:
    jwk = {name: value for name, value in the_key().public_jwk.items() if name != "kid"}
    verify = verifying(path, jwk)
    for header in ({"kid": None}, {"kid": "whatever"}):
        assert (await verify(signed(the_key(), header=header))).subject == "ada"


@pytest.mark.parametrize(
    ("claims", "passes"),
    [
        ({"iss": "https://issuer", "aud": "baton"}, True),
        ({"iss": "https://issuer", "aud": ["others", "baton"]}, True),
        ({"iss": "https://issuer", "aud": "others"}, False),
        ({"iss": "https://issuer"}, False),
        ({"iss": "https://other", "aud": "baton"}, False),
        ({"aud": "baton"}, False),
    ],
)
async def test_issuer_and_audience_are_those_that_are_expected(
    claims: dict[str, Any], passes: bool, path: Path
) -> None:
    verify = verifying(path, the_key(), expected=Expected("https://issuer", "baton"))
    token = signed(the_key(), **claims)
    async with running(who, verify=verify) as server:
        if passes:
            assert await server.ask("UnaryUnary", metadata=tuple(call_metadata(token)))
            return
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.ask("UnaryUnary", metadata=tuple(call_metadata(token)))
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_a_changed_file_is_read_again_and_its_former_keys_go(path: Path) -> None:
    old, new, ticks = a_key(), a_key(), Ticks()
    async with running(who, verify=verifying(path, old, ticks=ticks)) as server:
        await server.ask("UnaryUnary", metadata=tuple(call_metadata(signed(old))))
        put(path, document(new))
        ticks.now += 1
        assert await server.ask("UnaryUnary", metadata=tuple(call_metadata(signed(new))))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.ask("UnaryUnary", metadata=tuple(call_metadata(signed(old))))
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize("content", [None, b"", b"garbage", b'{"keys": []}', b" " * 300_000])
async def test_while_the_file_is_away_or_broken_the_known_keys_go_on(
    content: bytes | None, path: Path
) -> None:
    ticks = Ticks()
    verify = verifying(path, the_key(), ticks=ticks)
    put(path, content)
    ticks.now += 1
    assert (await verify(signed(the_key()))).subject == "ada"

    later = a_key()
    put(path, document(later))
    ticks.now += 1
    assert (await verify(signed(later))).subject == "ada"


def test_a_file_that_verifies_nothing_keeps_the_service_from_starting(path: Path) -> None:
    jwk = dict(the_key().public_jwk)
    weak = {"kty": "RSA", "kid": "weak", "n": "AQAB", "e": "AQAB"}
    for content in (
        None,
        pem(),
        b"[]",
        b'{"keys": {}}',
        b'{"keys": [1]}',
        document(weak),
        document(jwk | {"use": "enc"}),
        document(jwk | {"key_ops": ["sign"]}),
        document(jwk | {"key_ops": 5}),
        document(jwk | {"alg": "HS256"}),
        document(jwk | {"kid": 5}),
        document(jwk | {"kid": []}),
        document(jwk | {"x": 5}),
        document(jwk | {"x": "AAAA"}),
        document(jwk | {"crv": "Ed448"}),
        document(jwk | {"d": "AAAA"}),
        document({"kty": "oct", "k": "c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0IHNlY3JldA"}),
        document({"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}),
        document({"kty": "RSA"}),
        document({"kty": ["RSA"]}),
        document(*[jwk | {"kid": str(each)} for each in range(101)]),
    ):
        put(path, content)
        with pytest.raises(StartupFault, match=r"BATON_TOKEN_KEYS_FILE: .*keys\.json can't be used: "):
            KeyFile(path, setting="BATON_TOKEN_KEYS_FILE", monotonic=Ticks())


async def test_keys_that_are_of_no_use_do_not_spoil_the_others(path: Path) -> None:
    bad: list[dict[str, Any]] = [
        {"kty": "oct", "kid": "o"},
        {"kty": "RSA", "kid": "r", "n": "!", "e": "!"},
        {"kid": []},
        {},
    ]
    twin = dict(a_key().public_jwk) | {"kid": the_key().key_id}
    verify = verifying(
        path, *bad, the_key(), twin, {"kid": "x", "kty": "EC", "crv": "P-384", "x": "A", "y": "A"}
    )
    assert (await verify(signed(the_key()))).subject == "ada"
