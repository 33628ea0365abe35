"""What an executor sends, frame by frame."""

from __future__ import annotations

import asyncio

from job_worker.executor.outgoing import Outgoing
from shared.gen.baton.v1.execution_service_pb2 import (
    Heartbeat,
    LeaseRef,
    OpenSessionRequest,
    OutputPiece,
    Report,
    Success,
)

MEBIBYTE = 1024 * 1024


def ref(number: int) -> LeaseRef:
    return LeaseRef(job_id=f"job-{number}", token="1.token")


def success(number: int, output_bytes: int) -> Report:
    return Report(lease=ref(number), success=Success(output=b"x" * output_bytes))


async def drained(outgoing: Outgoing) -> list[OpenSessionRequest]:
    """Take frames until there is nothing more to send."""
    frames = []
    while outgoing.has_more():
        frames.append(await outgoing.next_frame())
    return frames


async def test_all_that_waits_goes_into_one_frame() -> None:
    outgoing = Outgoing()
    outgoing.credit("drill")
    outgoing.credit("drill", 2)
    outgoing.cancel_seen(ref(1))
    outgoing.heartbeat(Heartbeat(lease=ref(1)))
    outgoing.piece(OutputPiece(lease=ref(1), number=1, text="a"))
    for number in range(100):
        outgoing.report(success(number, 10))

    [frame] = await drained(outgoing)

    assert [(each.queue, each.count) for each in frame.credits] == [("drill", 3)]
    assert (len(frame.cancels_seen), len(frame.heartbeats), len(frame.pieces)) == (1, 1, 1)
    assert len(frame.reports) == 100


async def test_of_a_leases_heartbeats_the_latest_is_sent_and_frames_with_some_are_numbered() -> None:
    outgoing = Outgoing()
    outgoing.heartbeat(Heartbeat(lease=ref(1), progress=1))
    outgoing.heartbeat(Heartbeat(lease=ref(1), progress=2))
    first = await outgoing.next_frame()
    outgoing.credit("drill")
    second = await outgoing.next_frame()
    outgoing.heartbeat(Heartbeat(lease=ref(1), progress=3))
    third = await outgoing.next_frame()

    assert [each.progress for each in first.heartbeats] == [2]
    assert [frame.heartbeat_number for frame in (first, second, third)] == [1, 0, 2]


async def test_no_frame_is_larger_than_the_service_takes() -> None:
    outgoing = Outgoing()
    outgoing.begin(frame_bytes_max=4 * MEBIBYTE)
    for number in range(10):
        outgoing.report(success(number, MEBIBYTE))

    frames = await drained(outgoing)

    assert [report.lease for frame in frames for report in frame.reports] == [ref(n) for n in range(10)]
    assert max(frame.ByteSize() for frame in frames) <= 4 * MEBIBYTE
    assert len(frames) == 4


async def test_a_report_never_overtakes_pieces() -> None:
    outgoing = Outgoing()
    outgoing.begin(frame_bytes_max=MEBIBYTE)
    for number in range(1, 51):
        outgoing.piece(OutputPiece(lease=ref(1), number=number, text="x" * 60_000))
    outgoing.report(success(1, 10))

    frames = await drained(outgoing)

    assert [piece.number for frame in frames for piece in frame.pieces] == list(range(1, 51))
    assert [len(frame.reports) for frame in frames] == [0] * (len(frames) - 1) + [1]


async def test_the_goodbye_is_the_last_word() -> None:
    outgoing = Outgoing()
    outgoing.begin(frame_bytes_max=4 * MEBIBYTE)
    outgoing.goodbye()
    for number in range(6):
        outgoing.report(success(number, MEBIBYTE))

    frames = await drained(outgoing)

    assert [frame.HasField("goodbye") for frame in frames] == [False] * (len(frames) - 1) + [True]


async def test_a_writer_waits_until_there_is_something_and_a_new_session_starts_with_nothing() -> None:
    outgoing = Outgoing()
    outgoing.report(success(1, 10))
    outgoing.begin(frame_bytes_max=0)
    waiting = asyncio.create_task(outgoing.next_frame())
    await asyncio.sleep(0)
    assert not waiting.done()
    outgoing.credit("drill")

    assert len((await waiting).credits) == 1
