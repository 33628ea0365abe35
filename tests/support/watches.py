"""What watchers see, in short, and what executors do meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc

from shared.domain.leases import Heartbeat, Lease, LeaseRef
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from shared.storage.pieces import OutputPiece
from tests.support.control_service import Control

PATIENCE_SECONDS = 20


async def until_ended(watch: Any) -> list[pb.WatchJobResponse]:
    """All messages of a watch, up to its own last word."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        messages = [each async for each in watch]
    assert messages[-1].HasField("ended")
    assert await watch.code() is grpc.StatusCode.OK
    return messages


async def next_of(watch: Any) -> pb.WatchJobResponse:
    async with asyncio.timeout(PATIENCE_SECONDS):
        message: pb.WatchJobResponse = await watch.read()
    return message


async def next_change(watch: Any) -> pb.WatchJobResponse:
    """The next message that tells of something; a busy machine may come to keep a watch alive before."""
    message = await next_of(watch)
    while told_once(message) == "keep-alive":
        message = await next_of(watch)
    return message


def told(messages: Sequence[pb.WatchJobResponse]) -> list[str]:
    """Messages in short: `started 1`, `piece 1.2`, `40 %`, `ended FINISHED`."""
    return [told_once(each) for each in messages]


def told_once(message: pb.WatchJobResponse) -> str:
    match message.WhichOneof("update"):
        case "event":
            kind = job_pb2.JobEventKind.Name(message.event.kind).removeprefix("JOB_EVENT_KIND_").lower()
            return f"{kind} {message.event.attempt}"
        case "piece":
            return f"piece {message.piece.attempt}.{message.piece.number}"
        case "progress":
            return f"{message.progress.progress} %"
        case "ended":
            return "ended " + pb.WatchEndReason.Name(message.ended.reason).removeprefix("WATCH_END_REASON_")
        case _:
            return "keep-alive"


async def rest_of(watch: Any) -> list[str]:
    messages = list[pb.WatchJobResponse]()
    while not (messages and messages[-1].HasField("ended")):
        messages.append(await next_of(watch))
    return told(messages)


async def add_pieces(control: Control, lease: Lease, *numbers: int, text: str = "text") -> None:
    pieces = [OutputPiece(lease.ref, number, text) for number in numbers]
    async with control.transactions.begin() as transaction:
        await transaction.pieces.add(pieces)


async def beat(control: Control, lease: LeaseRef, progress: int, message: str = "") -> None:
    async with control.transactions.begin() as transaction:
        await transaction.leases.extend([Heartbeat(lease, progress, message)])
