"""`baton token`, and the services that take what it prints."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from shared.rpc.entrance import entrance_of
from shared.rpc.identity import Caller
from shared.runtime.settings import ServiceSettings
from tests.support.token_keys import pem

SECRET = "a secret of these tests, at least 32 bytes"


def baton_token(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "shared.command.main", "token", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def printed(*arguments: str, **environment: str) -> str:
    process = baton_token(*arguments, **environment)
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()


async def caller_of(token: str, **settings: Any) -> Caller:
    """Say who makes a call with this token, as a service of these settings sees it."""
    servers: dict[str, Any] = {"database_url": "postgresql://nowhere", "redis_url": "redis://nowhere"}
    whole = ServiceSettings(**servers, **settings)
    entrance = await entrance_of("0.0.0.0:0", whole)
    assert entrance.known_by.token is not None
    return await entrance.known_by.token(token)


async def test_a_token_by_the_secret_opens_a_service_with_the_same_secret() -> None:
    token = printed("--subject", "me", BATON_TOKEN_SECRET=SECRET)

    caller = await caller_of(token, token_secret=SECRET)
    claims = jwt.decode(token, options={"verify_signature": False})

    assert caller == Caller("me", frozenset({"jobs.read", "jobs.write"}))
    assert claims["exp"] - claims["iat"] == 3600


@pytest.mark.parametrize("kind", ["rsa", "ec", "ed25519"])
async def test_a_token_by_a_private_key_opens_a_service_with_its_key_set(kind: str, tmp_path: Path) -> None:
    key, keys = tmp_path / "key.pem", tmp_path / "keys.json"
    put(key, pem(kind))
    put(keys, printed("--key", str(key), "--jwks").encode())
    arguments = ("--subject", "e1", "--scope", "jobs.execute", "--scope", "jobs.read", "--lifetime", "30d")
    token = printed("--key", str(key), *arguments, BATON_TOKEN_SECRET=SECRET)

    assert await caller_of(token, token_keys_file=keys) == Caller(
        "e1", frozenset({"jobs.execute", "jobs.read"})
    )
    [published] = json.loads(get(keys))["keys"]
    assert published.keys().isdisjoint({"d", "p", "q"})


async def test_a_token_says_what_services_expect_of_it() -> None:
    names = {"BATON_TOKEN_ISSUER": "https://issuer", "BATON_TOKEN_AUDIENCE": "baton"}
    token = printed("--subject", "me", BATON_TOKEN_SECRET=SECRET, **names)
    other = printed("--subject", "me", "--issuer", "i", "--audience", "a", BATON_TOKEN_SECRET=SECRET, **names)

    settings = {"token_secret": SECRET, "token_issuer": "https://issuer", "token_audience": "baton"}
    assert (await caller_of(token, **settings)).subject == "me"
    settings |= {"token_issuer": "i", "token_audience": "a"}
    assert (await caller_of(other, **settings)).subject == "me"


def test_scripts_get_the_token_with_what_it_says() -> None:
    before = datetime.now(UTC)
    told = json.loads(printed("--subject", "me", "--lifetime", "90m", "--json", BATON_TOKEN_SECRET=SECRET))

    assert told.keys() == {"token", "subject", "scopes", "expire_time"}
    assert told["subject"] == "me"
    assert told["scopes"] == ["jobs.read", "jobs.write"]
    life = datetime.fromisoformat(told["expire_time"]) - before
    assert timedelta(minutes=89) < life < timedelta(minutes=92)


@pytest.mark.parametrize(
    ("arguments", "environment", "sentence"),
    [
        ((), {}, "--subject is required"),
        (("--subject", ""), {}, "--subject is required"),
        (("--subject", "me"), {"BATON_TOKEN_SECRET": ""}, "set BATON_TOKEN_SECRET, or name a private key"),
        (("--subject", "me"), {"BATON_TOKEN_SECRET": "hunter2"}, "BATON_TOKEN_SECRET is too short"),
        (("--subject", "a\nb"), {}, "printable"),
        (("--subject", "m" * 201), {}, "200"),
        (("--subject", "me", "--scope", "jobs.reed"), {}, "unknown scopes: jobs.reed; there are jobs.admin"),
        (("--subject", "me", "--lifetime", "0h"), {}, "from 1s to 366d"),
        (("--subject", "me", "--lifetime", "367d"), {}, "from 1s to 366d"),
        (("--subject", "me", "--lifetime", "999999999d"), {}, "from 1s to 366d"),
        (("--subject", "me", "--lifetime", "-1h"), {}, "a number and s, m, h or d"),
        (("--subject", "me", "--lifetime", "soon"), {}, "a number and s, m, h or d"),
        (("--jwks",), {}, "--jwks needs --key"),
        (("--jwks", "--key", "nowhere.pem"), {}, "nowhere.pem can't be read: No such file"),
        (("--subject", "me", "--key", "/dev/null"), {}, "/dev/null holds no private key in PEM"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    arguments: tuple[str, ...], environment: dict[str, str], sentence: str
) -> None:
    process = baton_token(*arguments, **({"BATON_TOKEN_SECRET": SECRET} | environment))

    assert process.returncode == 2
    assert process.stdout == ""
    [line] = process.stderr.splitlines()
    assert sentence in line
    assert "hunter2" not in line


@pytest.mark.parametrize("kind", ["weak rsa", "another curve"])
def test_a_key_that_services_would_not_take_signs_nothing(kind: str, tmp_path: Path) -> None:
    put(tmp_path / "key.pem", pem(kind))
    process = baton_token("--subject", "me", "--key", str(tmp_path / "key.pem"))

    assert process.returncode == 2
    assert "it must be RSA of 2048 bits or more, elliptic curve P-256, or Ed25519" in process.stderr


def test_a_key_under_a_passphrase_is_told_from_garbage(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    private = ed25519.Ed25519PrivateKey.generate()
    put(key, private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")))
    process = baton_token("--subject", "me", "--key", str(key))

    assert process.returncode == 2
    assert "key.pem is kept under a passphrase" in process.stderr


def put(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def get(path: Path) -> bytes:
    return path.read_bytes()
