"""Lua scripts, several in one round trip. Each script's file says what it takes and returns."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import NoScriptError

from shared.streams.connection import translated


class Script:
    """A script that lies beside this module."""

    def __init__(self, name: str) -> None:
        self.text = _text("guarded") + _text(name)
        self.sha = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


def _text(name: str) -> str:
    return resources.files("shared.streams").joinpath(f"{name}.lua").read_text()


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """One run of a script; its keys are in one slot."""

    script: Script
    keys: Sequence[str]
    arguments: Sequence[str | bytes | int]


async def run(redis: Redis, calls: Sequence[ScriptCall]) -> list[Any]:
    """Run the scripts in one round trip and return what each returned, in order.

    A server that does not know a script yet is sent its text in a second round trip; the other scripts have
    run by then.

    Raises:
        PlatformUnavailable: See `translated`; each script has run as a whole or not at all.
    """
    if not calls:
        return []
    with translated():
        replies = await _replies(redis, calls, whole=False)
        unknown = [index for index, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if unknown:
            again = await _replies(redis, [calls[index] for index in unknown], whole=True)
            for index, reply in zip(unknown, again, strict=True):
                replies[index] = reply
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
    return replies


async def _replies(redis: Redis, calls: Sequence[ScriptCall], *, whole: bool) -> list[Any]:
    async with redis.pipeline(transaction=False) as pipeline:
        for call in calls:
            command = ("EVAL", call.script.text) if whole else ("EVALSHA", call.script.sha)
            pipeline.execute_command(*command, len(call.keys), *call.keys, *call.arguments)
        replies: list[Any] = await pipeline.execute(raise_on_error=False)
    return replies
