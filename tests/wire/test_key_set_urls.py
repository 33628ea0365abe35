"""Key sets behind a URL: a real web server that publishes them, well or badly, and a service that asks."""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from shared.domain.errors import PlatformUnavailable
from shared.rpc.calls import Context
from shared.rpc.channel import call_metadata
from shared.rpc.identity import Verify, current_caller
from shared.rpc.key_fetch import KeyFetch, NotFetched
from shared.rpc.key_urls import KeyUrl
from shared.rpc.tokens import key_set
from shared.runtime.faults import StartupFault
from tests.support.certificates import LOOPBACK, Authority
from tests.support.four_kinds import KINDS, running
from tests.support.key_server import KeyServer, key_server
from tests.support.token_keys import a_key, document, signed, the_key
from tests.wire.test_key_set_tokens import Ticks

SETTING = "BATON_TOKEN_KEYS_URL"


async def who(context: Context) -> bytes:
    return current_caller().subject.encode()


def asking(server: KeyServer, *, ticks: Ticks | None = None, seconds_max: float = 5.0) -> Verify:
    fetch = KeyFetch(server.url, setting=SETTING, seconds_max=seconds_max)
    return key_set(KeyUrl(fetch, url=server.url, monotonic=ticks or Ticks()))


@pytest.fixture
def issuer() -> Iterator[KeyServer]:
    with key_server(document(the_key())) as server:
        yield server


@pytest.mark.parametrize("call", KINDS)
async def test_a_token_is_verified_by_the_published_keys(call: str, issuer: KeyServer) -> None:
    async with running(who, verify=asking(issuer)) as server:
        for _ in range(3):
            responses = await server.ask(call, metadata=tuple(call_metadata(signed(the_key()))))
            assert responses[-1] == b"ada"
    assert issuer.questions == 1


async def test_keys_rotate_without_a_restart(issuer: KeyServer) -> None:
    old, new, ticks = the_key(), a_key(), Ticks()
    async with running(who, verify=asking(issuer, ticks=ticks)) as server:
        assert await server.ask("UnaryUnary", metadata=tuple(call_metadata(signed(old))))
        issuer.body = document(old, new)
        ticks.now += 10
        assert await server.ask("UnaryUnary", metadata=tuple(call_metadata(signed(new))))
        assert await server.ask("UnaryUnary", metadata=tuple(call_metadata(signed(old))))


async def test_calls_go_on_while_the_issuer_is_away(issuer: KeyServer) -> None:
    ticks = Ticks()
    token = tuple(call_metadata(signed(the_key())))
    async with running(who, verify=asking(issuer, ticks=ticks)) as server:
        assert await server.ask("UnaryUnary", metadata=token)
        issuer.status = 503
        for _ in range(5):
            ticks.now += 600
            assert await server.ask("UnaryUnary", metadata=token)


async def test_a_token_that_can_not_be_judged_is_worth_another_try() -> None:
    with key_server(b"") as gone:
        verify = asking(gone)
    async with running(who, verify=verify) as server:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.ask("UnaryUnary", metadata=tuple(call_metadata(signed(the_key()))))
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize(
    "garbage", [b"", b"<html></html>", b"[" * 200_000, b'{"keys": 1}', b"\xff" * 1000, b"{" + b" " * 300_000]
)
async def test_an_answer_that_is_no_key_set_verifies_nothing(garbage: bytes, issuer: KeyServer) -> None:
    issuer.body = garbage
    with pytest.raises(PlatformUnavailable):
        await asking(issuer)(signed(the_key()))


async def test_no_more_is_read_than_a_key_set_may_have(issuer: KeyServer) -> None:
    issuer.body = b" " * (50 << 20)
    with pytest.raises(NotFetched, match="more than 262144 bytes"):
        await KeyFetch(issuer.url, setting=SETTING)()


@pytest.mark.parametrize("status", [204, 301, 302, 307, 404, 500])
async def test_only_the_url_itself_is_asked(status: int, issuer: KeyServer) -> None:
    with key_server(document(the_key())) as elsewhere:
        issuer.status, issuer.headers = status, {"Location": elsewhere.url}
        with pytest.raises(NotFetched, match=f"it answered {status}"):
            await KeyFetch(issuer.url, setting=SETTING)()
    assert elsewhere.questions == 0


async def test_a_proxy_of_the_environment_is_not_asked(
    issuer: KeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert await KeyFetch(issuer.url, setting=SETTING)() == issuer.body


async def test_a_slow_issuer_holds_up_nobody_whose_key_is_known(issuer: KeyServer) -> None:
    ticks = Ticks()
    token = tuple(call_metadata(signed(the_key())))
    async with running(who, verify=asking(issuer, ticks=ticks)) as server:
        assert await server.ask("UnaryUnary", metadata=token)
        issuer.held = threading.Event()
        issuer.asked.clear()
        ticks.now += 10
        waiting = asyncio.create_task(
            server.ask("UnaryUnary", metadata=tuple(call_metadata(signed(a_key()))))
        )
        assert await asyncio.to_thread(issuer.asked.wait, 10)
        assert await server.ask("UnaryUnary", metadata=token)
        assert not waiting.done()
        issuer.held.set()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await waiting
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize("dripping", [False, True], ids=["silent", "a byte now and then"])
async def test_a_slow_answer_is_waited_for_no_longer_than_its_limit(
    dripping: bool, issuer: KeyServer
) -> None:
    issuer.dripping = dripping
    issuer.held = None if dripping else threading.Event()
    fetch = KeyFetch(issuer.url, setting=SETTING, seconds_max=0.3)
    began = time.monotonic()
    with pytest.raises(NotFetched, match=r"within 0\.3 s"):
        await fetch()
    assert time.monotonic() - began < 5

    issuer.dripping, held = False, issuer.held
    issuer.held = None
    if held is not None:
        held.set()
    async with asyncio.timeout(10):
        while True:
            try:
                assert await fetch() == issuer.body
                break
            except NotFetched as still:  # the thread of the first question ends as its connection does
                assert "still hangs" in str(still)  # noqa: PT017
                await asyncio.sleep(0.01)


async def test_an_issuers_certificate_must_be_one_that_this_machine_believes(
    issuer: KeyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    files = authority.signed("issuer", names=LOOPBACK)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    with key_server(document(the_key()), context=context) as secure:
        fetch = KeyFetch(secure.url, setting=SETTING)
        with pytest.raises(NotFetched, match="CERTIFICATE_VERIFY_FAILED"):
            await fetch()
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
        assert await KeyFetch(secure.url, setting=SETTING)() == secure.body


@pytest.mark.parametrize(
    "url",
    [
        "http://issuer.example/keys",
        "http://10.0.0.7/keys",
        "http://127.0.0.1.example/keys",
        "http://me:secret@127.0.0.1/keys",
        "https://me@issuer.example/keys",
        "file:///etc/passwd",
        "ftp://issuer.example/keys",
        "https://",
        "https://issuer.example:port/keys",
        "https://[::1/keys",
        "issuer.example/keys",
        "keys.json",
    ],
)
def test_a_url_over_which_others_could_put_in_keys_of_theirs_is_refused(url: str) -> None:
    with pytest.raises(StartupFault, match=SETTING):
        KeyFetch(url, setting=SETTING)


@pytest.mark.parametrize(
    "url", ["https://issuer.example/keys", "http://127.0.0.1:1/k", "http://localhost/k", "http://[::1]:1/k"]
)
def test_a_url_of_an_issuer_or_of_this_machine_is_taken(url: str) -> None:
    KeyFetch(url, setting=SETTING)
