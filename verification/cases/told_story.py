"""What watchers of streamed output were told, against all that there was to tell by the database."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from typing import TypeAlias

from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from verification.cases import views
from verification.peers.control import Control
from verification.stage.stage import Stage
from verification.unmet import Unmet, require

Event: TypeAlias = tuple[int, str, int]
"""Number, kind and attempt."""
Piece: TypeAlias = tuple[int, int, str]
"""Attempt, number and text."""
Item: TypeAlias = tuple[str, Event | Piece]
"""`event` or `piece`, and which."""

WAIT_SECONDS = 60.0

_ENDS_OF_ATTEMPTS = ("attempt_ended", "succeeded")
_EVENTS = """
select coalesce(json_agg(json_build_array(number, kind, attempt) order by number), '[]')
from job_events where job_id = $1
"""
_PIECES = """
select coalesce(json_agg(json_build_array(attempt, number, content) order by attempt, number), '[]')
from output_pieces where job_id = $1
"""


async def events_of(stage: Stage, job_id: str) -> list[Event]:
    """All events of a job, by number."""
    return [
        (number, kind, attempt) for number, kind, attempt in json.loads(await stage.value(_EVENTS, job_id))
    ]


async def pieces_of(stage: Stage, job_id: str) -> list[Piece]:
    """All pieces of a job, by attempt and number."""
    return [
        (attempt, number, text) for attempt, number, text in json.loads(await stage.value(_PIECES, job_id))
    ]


async def story_of(stage: Stage, job_id: str) -> list[Item]:
    """All that there is to tell of a job: its events, and the pieces of an attempt just before its end."""
    pieces = await pieces_of(stage, job_id)
    story: list[Item] = []
    for event in await events_of(stage, job_id):
        _, kind, attempt = event
        if kind in _ENDS_OF_ATTEMPTS:
            story += [("piece", each) for each in pieces if each[0] == attempt]
        story.append(("event", event))
    return story


def told(updates: Iterable[pb.WatchJobResponse]) -> list[Item]:
    """Events and pieces among updates, in order."""
    found: list[Item] = []
    for each in updates:
        if each.HasField("event"):
            kind = views.word(job_pb2.JobEventKind, each.event.kind).lower()
            found.append(("event", (each.event.number, kind, each.event.attempt)))
        elif each.HasField("piece"):
            found.append(("piece", (each.piece.attempt, each.piece.number, each.piece.text)))
    return found


def require_told(who: str, updates: Iterable[pb.WatchJobResponse], story: Sequence[Item]) -> None:
    """Require that a watcher was told a story without gap, repeat or anything else."""
    heard = told(updates)
    for place, (mine, right) in enumerate(zip(heard, story, strict=False)):
        require(mine == right, f"{who}: update {place + 1} should be {_short(right)} and is {_short(mine)}")
    require(len(heard) == len(story), f"{who} was told {len(heard)} things of {len(story)}")


def after(story: Sequence[Item], update: pb.WatchJobResponse) -> Sequence[Item]:
    """What is left of a story for who resumes at the cursor of an update of an event or a piece."""
    (last,) = told([update])
    return story[story.index(last) + 1 :]


async def watch_to_piece(
    control: Control, job_id: str, attempt: int, number: int, *, name: str
) -> list[pb.WatchJobResponse]:
    """Watch from the start until a piece is told, then leave; return all that was told up to it."""
    updates: list[pb.WatchJobResponse] = []
    async with asyncio.timeout(WAIT_SECONDS), aclosing(_resumed(control, job_id, name)) as stream:
        async for update in stream:
            updates.append(update)
            if (update.piece.attempt, update.piece.number) == (attempt, number):
                return updates
    raise Unmet(f"{name}: the watch ended before piece {attempt}.{number}")


async def _resumed(control: Control, job_id: str, name: str) -> AsyncGenerator[pb.WatchJobResponse, None]:
    """Watch, and again from the cursor if the service finds the watcher slow."""
    cursor, reason = "", pb.WATCH_END_REASON_SLOW
    while reason == pb.WATCH_END_REASON_SLOW:
        async with aclosing(control.watch(job_id, name=name, cursor=cursor)) as stream:
            async for update in stream:
                cursor, reason = update.cursor, update.ended.reason or reason
                yield update


def _short(each: Item) -> str:
    what, (first, second, third) = each
    return f"piece {first}.{second}" if what == "piece" else f"event {first} {second} of attempt {third}"
