"""Heartbeats of many sessions, gathered: the latest wins, nothing is lost, nobody is told of what is over."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from job_worker.sessions.frames import ServiceFrame
from job_worker.sessions.heartbeat_batch import HeartbeatBatch
from job_worker.sessions.session import Session
from shared.domain.errors import PlatformUnavailable
from shared.domain.leases import Heartbeat, HeartbeatOutcome, LeaseRef
from tests.support.worker_sessions import a_ref, a_session


class Recorder:
    """Records heartbeats in memory; may be away, and may know leases as lost."""

    def __init__(self) -> None:
        self.away = False
        self.lost: set[LeaseRef] = set()
        self.batches: list[list[Heartbeat]] = []

    async def __call__(self, heartbeats: Sequence[Heartbeat]) -> HeartbeatOutcome:
        if self.away:
            raise PlatformUnavailable("database")
        self.batches.append(list(heartbeats))
        return HeartbeatOutcome([each.ref for each in heartbeats if each.ref in self.lost], ())


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def batch(recorder: Recorder) -> HeartbeatBatch:
    return HeartbeatBatch(recorder)  # type: ignore[arg-type]


async def told(session: Session) -> list[ServiceFrame]:
    session.outgoing.close()
    return [frame async for frame in session.outgoing.frames()]


async def test_the_latest_heartbeat_of_a_lease_wins_and_keeps_what_was_said_before(
    batch: HeartbeatBatch, recorder: Recorder
) -> None:
    session, ref = a_session(), a_ref()
    batch.add(session, [Heartbeat(ref, 10, "ten")], 1)
    batch.add(session, [Heartbeat(ref, 20)], 2)

    await batch.step()

    assert recorder.batches == [[Heartbeat(ref, 20, "ten")]]
    assert [each.heartbeats_recorded for each in await told(session)] == [2]


async def test_nothing_is_said_or_lost_while_the_database_is_away(
    batch: HeartbeatBatch, recorder: Recorder
) -> None:
    session, first, second = a_session(), a_ref(), a_ref()
    recorder.away = True
    batch.add(session, [Heartbeat(first, 10, "ten"), Heartbeat(second)], 1)
    with pytest.raises(PlatformUnavailable):
        await batch.step()
    batch.add(session, [Heartbeat(first, 20)], 2)
    recorder.away = False

    await batch.step()

    assert recorder.batches == [[Heartbeat(first, 20, "ten"), Heartbeat(second)]]
    assert [each.heartbeats_recorded for each in await told(session)] == [2]


async def test_a_lease_that_was_reported_on_is_not_called_lost(
    batch: HeartbeatBatch, recorder: Recorder
) -> None:
    session, reported, lost = a_session(), a_ref(), a_ref()
    recorder.lost = {reported, lost}
    batch.add(session, [Heartbeat(reported), Heartbeat(lost)], 1)
    batch.drop([reported])

    await batch.step()

    (frame,) = await told(session)
    assert list(frame.lost) == [lost]


async def test_two_tokens_of_a_job_are_in_two_statements(batch: HeartbeatBatch, recorder: Recorder) -> None:
    session, ref = a_session(), a_ref()
    older = LeaseRef(ref.job_id, a_ref().token)
    batch.add(session, [Heartbeat(older), Heartbeat(ref)], 1)

    await batch.step()

    assert recorder.batches == [[Heartbeat(older)], [Heartbeat(ref)]]


async def test_an_empty_batch_asks_nothing(batch: HeartbeatBatch, recorder: Recorder) -> None:
    await batch.step()

    assert recorder.batches == []
