"""Broken streams, lost leases, and services that drain."""

from __future__ import annotations

from google.protobuf.duration_pb2 import Duration

from shared.gen.baton.v1 import execution_service_pb2 as pb
from verification.conformance.executors.bench import QUEUE, Bench, is_named, names
from verification.conformance.executors.check import Check
from verification.peers.executor import ref
from verification.peers.service import ScriptedSession
from verification.unmet import require

_DRAIN_SECONDS = 20
_MOVE_SECONDS_MAX = 15.0
_LONG_SECONDS = 30.0
"""Longer than any way to another session."""


async def comes_back_with_what_it_holds(bench: Bench) -> None:
    """After a break it says hello as the same incarnation, names its leases, and ends them there."""
    session = await bench.session()
    leases = [await bench.grant(session, duration_seconds=1.5) for _ in range(2)]
    later = await bench.broken(session)
    _require_same_with(later, session, leases)
    await bench.welcome(later, kept=later.hello.held)
    for lease in leases:
        await bench.accepted(later, lease)
    for lease in leases:
        await bench.success(later, lease, seconds=20)


async def begins_each_session_with_no_credits(bench: Bench) -> None:
    """A session's credits are those given on it: after a break they come anew, less what is still held."""
    session = await bench.broken(await bench.session())
    await bench.welcome(session)
    room = session.credits(QUEUE)
    lease = await bench.grant(session, duration_seconds=_LONG_SECONDS)
    later = await bench.broken(session)
    await bench.welcome(later, kept=later.hello.held)
    given = later.credits(QUEUE)
    require(given == room - 1, f"{room} leases fit and 1 is held, but {given} credits were given")
    await bench.drop(later, lease)


async def drops_what_was_lost_while_it_was_away(bench: Bench) -> None:
    """Of the leases that a welcome calls lost nothing more is heard; those that are kept go on."""
    session = await bench.session()
    lost = await bench.grant(session, duration_seconds=1.0)
    kept = await bench.grant(session, duration_seconds=2.0)
    later = await bench.broken(session)
    require(is_named(lost, later.hello.held), "a lease that it still worked on was not named in the hello")
    await bench.welcome(later, kept=[ref(kept)], lost=[ref(lost)])
    await bench.success(later, kept, seconds=20)
    _require_silence(later, lost, heartbeats=0)


async def drops_what_it_is_told_is_lost(bench: Bench) -> None:
    """A handler whose lease is lost is stopped: no report, no heartbeat, and its room is free again."""
    session = await bench.session()
    lease = await bench.grant(session, duration_seconds=1.0)
    await session.send(lost=[ref(lease)])
    other = await bench.grant(session, duration_seconds=2.2)
    heartbeats = len(session.heartbeats_of(lease))
    await bench.success(session, other, seconds=20)
    _require_silence(session, lease, heartbeats=heartbeats)
    await bench.until(
        session, lambda: bench.credits_left(session) >= 1, "the credit of a lost lease did not come again"
    )


async def moves_when_the_service_drains(bench: Bench) -> None:
    """Told to drain, it opens another session, names there what it holds, and takes leases only there."""
    session = await bench.session()
    lease = await bench.grant(session, duration_seconds=_LONG_SECONDS)
    await session.send(drain=pb.Drain(time_left=Duration(seconds=_DRAIN_SECONDS)))
    later = await bench.next_session(seconds=_MOVE_SECONDS_MAX)
    credits = session.credits(QUEUE)
    _require_same_with(later, session, [lease])
    await bench.welcome(later, kept=later.hello.held)
    await bench.accepted(later, lease)
    fresh = await bench.grant(later, duration_seconds=0.5)
    await bench.success(later, fresh)
    await bench.drop(later, lease)
    more = session.credits(QUEUE) - credits
    require(not more, f"{more} credits were given on the session that drains")
    await bench.until_over(session)


def _require_same_with(later: ScriptedSession, session: ScriptedSession, leases: list[pb.Lease]) -> None:
    same = later.hello.incarnation_id == session.hello.incarnation_id
    require(same, "the next hello was that of another incarnation")
    held, expected = names(later.hello.held), names([ref(each) for each in leases])
    require(
        held == expected,
        f"{len(expected)} leases are held; the hello names {len(held & expected)} of them"
        f" and {len(held - expected)} others",
    )


def _require_silence(session: ScriptedSession, lease: pb.Lease, *, heartbeats: int) -> None:
    require(not session.reports_of(lease), "a lease that was lost was reported")
    later = len(session.heartbeats_of(lease)) - heartbeats
    require(later <= 0, f"{later} heartbeats came for a lease that was lost")


CHECKS = (
    Check(comes_back_with_what_it_holds),
    Check(begins_each_session_with_no_credits),
    Check(drops_what_was_lost_while_it_was_away),
    Check(drops_what_it_is_told_is_lost),
    Check(moves_when_the_service_drains),
)
