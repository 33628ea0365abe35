"""What waits for an executor: merged into frames, bounded, and never lost in silence."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from job_worker.operations.reports import ReportAnswer, ReportOutcome
from job_worker.sessions.frames import ServiceFrame
from job_worker.sessions.outgoing import ANSWERS_MAX, UNSENT_LEASES_MAX, Outgoing
from tests.support.worker_sessions import DRILL, a_grant, a_ref, a_session

FRAME = 1 << 20


async def rest(outgoing: Outgoing) -> list[ServiceFrame]:
    outgoing.close()
    return [frame async for frame in outgoing.frames()]


def an_answer() -> ReportAnswer:
    return ReportAnswer(a_ref(), ReportOutcome.ACCEPTED)


async def test_all_that_waits_goes_in_one_frame() -> None:
    outgoing, lease, lost, cancel = Outgoing(frame_bytes_max=FRAME), a_grant(), a_ref(), a_ref()
    outgoing.add_leases([lease])
    outgoing.add_lost([lost])
    outgoing.add_cancels([cancel])
    outgoing.add_cancels([cancel])
    outgoing.add_heartbeats_recorded(7)
    outgoing.add_heartbeats_recorded(5)
    outgoing.add_pieces_recorded({lost: 3})
    outgoing.add_pieces_recorded({lost: 4})
    outgoing.ask_to_drain(timedelta(seconds=9))

    (frame,) = await rest(outgoing)

    assert (list(frame.leases), list(frame.lost), list(frame.cancels)) == ([lease], [lost], [cancel])
    assert (frame.heartbeats_recorded, frame.pieces_recorded, frame.drain) == (
        7,
        {lost: 4},
        timedelta(seconds=9),
    )


async def test_large_inputs_are_spread_over_frames_that_stay_small() -> None:
    outgoing = Outgoing(frame_bytes_max=FRAME)
    leases = [a_grant(b"x" * 64 * 1024) for _ in range(30)]
    outgoing.add_leases(leases)

    frames = await rest(outgoing)

    assert [each for frame in frames for each in frame.leases] == leases
    assert max(sum(len(each.lease.input) for each in frame.leases) for frame in frames) < FRAME
    assert len(frames) > 1


async def test_frames_come_while_there_is_something_and_end_with_the_session() -> None:
    outgoing = Outgoing(frame_bytes_max=FRAME)
    frames = outgoing.frames()
    waiting = asyncio.ensure_future(anext(frames))
    await asyncio.sleep(0)
    assert not waiting.done()

    outgoing.add_answers([an_answer()])
    assert len((await waiting).answers) == 1

    outgoing.close()
    assert [each async for each in frames] == []


async def test_an_executor_that_reads_no_leases_gets_no_more() -> None:
    session = a_session(credits=10_000)
    for _ in range(UNSENT_LEASES_MAX):
        session.take_credit(DRILL)
    assert session.open_credits(DRILL) == 0
    session.grant([a_grant() for _ in range(UNSENT_LEASES_MAX)])
    assert session.open_credits(DRILL) == 0

    frames = session.outgoing.frames()
    await anext(frames)

    assert session.open_credits(DRILL) > 0


async def test_an_executor_that_reads_no_answers_is_not_listened_to_until_it_does() -> None:
    outgoing = Outgoing(frame_bytes_max=16 * FRAME)
    outgoing.add_answers([an_answer() for _ in range(ANSWERS_MAX + 1)])
    waiting = asyncio.ensure_future(outgoing.room_for_answers())
    await asyncio.sleep(0)
    assert not waiting.done()

    await rest(outgoing)
    await waiting


def test_leases_that_no_frame_has_carried_are_taken_back() -> None:
    outgoing, lease = Outgoing(frame_bytes_max=FRAME), a_grant()
    outgoing.add_leases([lease])

    assert outgoing.unsent_leases() == [lease.lease.ref]
    assert outgoing.unsent_leases() == []


async def test_a_session_that_drains_or_said_goodbye_gets_nothing() -> None:
    draining, leaving = a_session(credits=1), a_session(credits=1)
    draining.drain(timedelta(seconds=1))
    leaving.goodbye = True

    assert (draining.open_credits(DRILL), leaving.open_credits(DRILL)) == (0, 0)
