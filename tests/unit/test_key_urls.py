"""When a key set behind a URL is fetched, and how long it counts."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from shared.domain.errors import PlatformUnavailable, Unauthenticated
from shared.rpc.key_fetch import NotFetched
from shared.rpc.key_sets import SigningKey
from shared.rpc.key_urls import KeyUrl
from tests.support.token_keys import document, the_key

MINUTE = timedelta(minutes=1)


class Issuer:
    """Publishes a set, or is away; and seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.published: bytes | None = document(the_key("ed25519"))
        self.questions = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.asked = asyncio.Event()
        self.now = 1000.0
        self.keys = KeyUrl(self.answer, url="https://issuer/keys", monotonic=lambda: self.now)

    async def answer(self) -> bytes:
        self.questions += 1
        self.asked.set()
        await self.may_answer.wait()
        if self.published is None:
            raise NotFetched("it is away")
        return self.published

    def passes(self, time: timedelta) -> None:
        self.now += time.total_seconds()

    def hold(self) -> None:
        self.may_answer.clear()
        self.asked.clear()

    async def knows(self, key: SigningKey) -> bool:
        try:
            await self.keys.key(key.key_id)
        except Unauthenticated:
            return False
        return True

    async def settled(self) -> None:
        """Let a fetch that nobody waits for come to its end."""
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            await task


OLD, NEW = the_key("ed25519"), the_key("ec")


async def test_the_set_is_fetched_with_the_first_token_and_once_for_all_that_come_together() -> None:
    issuer = Issuer()
    issuer.hold()
    calls = [asyncio.create_task(issuer.knows(OLD)) for _ in range(100)]
    await issuer.asked.wait()
    issuer.may_answer.set()
    assert await asyncio.gather(*calls) == [True] * 100
    assert issuer.questions == 1


async def test_a_caller_that_goes_away_while_all_wait_ends_nobody_elses_wait() -> None:
    issuer = Issuer()
    issuer.hold()
    first, second = asyncio.create_task(issuer.knows(OLD)), asyncio.create_task(issuer.knows(OLD))
    await issuer.asked.wait()
    first.cancel()
    await asyncio.wait({first})
    issuer.may_answer.set()
    assert await second


async def test_a_set_that_ages_is_fetched_again_and_nobody_waits_for_it() -> None:
    issuer = Issuer()
    assert await issuer.knows(OLD)
    issuer.hold()
    issuer.passes(6 * MINUTE)
    assert await issuer.knows(OLD)
    await issuer.asked.wait()
    issuer.published = document(NEW)
    issuer.may_answer.set()
    await issuer.settled()
    assert not await issuer.knows(OLD)
    assert await issuer.knows(NEW)


async def test_after_a_quiet_time_a_withdrawn_key_opens_nothing() -> None:
    issuer = Issuer()
    assert await issuer.knows(OLD)
    issuer.published = document(NEW)
    issuer.passes(16 * MINUTE)
    assert not await issuer.knows(OLD)


async def test_an_unknown_key_is_asked_for_but_not_again_and_again() -> None:
    issuer = Issuer()
    assert await issuer.knows(OLD)
    for _ in range(50):
        assert not await issuer.knows(NEW)
    assert issuer.questions == 1

    issuer.passes(timedelta(seconds=10))
    for _ in range(50):
        assert not await issuer.knows(NEW)
    assert issuer.questions == 2

    issuer.published = document(OLD, NEW)
    issuer.passes(timedelta(seconds=10))
    assert await issuer.knows(NEW)
    assert issuer.questions == 3


async def test_known_keys_do_not_wait_while_an_unknown_one_is_asked_for() -> None:
    issuer = Issuer()
    assert await issuer.knows(OLD)
    issuer.passes(timedelta(seconds=10))
    issuer.hold()
    unknown = asyncio.create_task(issuer.knows(NEW))
    await issuer.asked.wait()
    assert await issuer.knows(OLD)
    issuer.may_answer.set()
    assert not await unknown


@pytest.mark.parametrize("published", [None, b"<html>", b'{"keys": []}'])
async def test_while_the_issuer_is_away_the_known_keys_go_on_for_a_day(published: bytes | None) -> None:
    issuer = Issuer()
    assert await issuer.knows(OLD)
    issuer.published = published
    for _ in range(23 * 6):
        issuer.passes(10 * MINUTE)
        assert await issuer.knows(OLD)
        await issuer.settled()
    assert issuer.questions <= 1 + 23 * 6

    issuer.passes(61 * MINUTE)
    with pytest.raises(PlatformUnavailable, match="issuer"):
        await issuer.knows(OLD)

    issuer.published = document(OLD)
    issuer.passes(MINUTE)
    assert await issuer.knows(OLD)


async def test_without_any_keys_a_token_is_not_refused_but_can_not_be_judged() -> None:
    issuer = Issuer()
    issuer.published = None
    for _ in range(20):
        with pytest.raises(PlatformUnavailable) as caught:
            await issuer.knows(OLD)
    assert caught.value.metadata == {"what": "issuer"}
    assert issuer.questions == 1

    issuer.published = document(OLD)
    issuer.passes(timedelta(seconds=10))
    assert await issuer.knows(OLD)


async def test_a_service_that_starts_while_the_issuer_is_away_starts_and_asks_again() -> None:
    issuer = Issuer()
    issuer.published = None
    await issuer.keys.look()
    issuer.published = document(OLD)
    issuer.passes(timedelta(seconds=10))
    assert await issuer.knows(OLD)
