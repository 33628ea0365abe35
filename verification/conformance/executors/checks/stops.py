"""Cancels and time limits: handlers that must stop."""

from __future__ import annotations

from shared.gen.baton.v1 import execution_service_pb2 as pb
from verification.conformance.executors.bench import Bench, described
from verification.conformance.executors.check import Check, Feature
from verification.peers.executor import ref
from verification.peers.service import ScriptedSession
from verification.unmet import require

_LONG_SECONDS = 60.0
_TIME_LEFT_SECONDS = 0.7


async def stops_when_cancelled(bench: Bench) -> None:
    """A cancel is acknowledged, the handler stops, and `stopped` is reported, in this order."""
    session = await bench.session()
    lease = await bench.grant(session, duration_seconds=_LONG_SECONDS)
    await _cancelled(bench, session, lease)


async def acknowledges_a_cancel_each_time_it_is_pushed(bench: Bench) -> None:
    """A cancel that is pushed again, also after the report, is acknowledged again, and does nothing else."""
    session = await bench.session()
    lease = await bench.grant(session, duration_seconds=_LONG_SECONDS)
    await _cancelled(bench, session, lease)
    seen = session.cancels_seen.count(ref(lease))
    await session.send(cancels=[ref(lease)])
    await bench.until(
        session, lambda: session.cancels_seen.count(ref(lease)) > seen, "the second push was not acknowledged"
    )
    other = await bench.grant(session, accepted=False)
    await bench.success(session, other)
    reports = len(session.reports_of(lease))
    require(reports == 1, f"one lease was reported {reports} times")


async def kills_a_handler_that_ignores_a_cancel(bench: Bench) -> None:
    """A handler that goes on after a cancel is killed, and `stopped` says so, within the grace period."""
    session = await bench.session()
    lease = await bench.grant(session, duration_seconds=_LONG_SECONDS, ignore_cancel=True)
    report = await _cancelled(bench, session, lease)
    require(report.stopped.killed, "the handler ignored the cancel, but the report does not say `killed`")


async def ends_what_is_out_of_time(bench: Bench) -> None:
    """When `time_left` is over the handler is stopped, and the attempt fails as TIMEOUT."""
    session = await bench.session()
    await bench.warm_up(session)
    lease = await bench.grant(session, time_left=_TIME_LEFT_SECONDS, duration_seconds=_LONG_SECONDS)
    _require_timeout(await bench.report(session, lease))


async def kills_a_handler_that_ignores_its_time(bench: Bench) -> None:
    """A handler that goes on when its time is over is killed, and the attempt fails as TIMEOUT."""
    session = await bench.session()
    await bench.warm_up(session)
    lease = await bench.grant(
        session, time_left=_TIME_LEFT_SECONDS, duration_seconds=_LONG_SECONDS, ignore_cancel=True
    )
    _require_timeout(await bench.report(session, lease))


async def _cancelled(bench: Bench, session: ScriptedSession, lease: pb.Lease) -> pb.Report:
    await session.send(cancels=[ref(lease)])
    await bench.until(session, lambda: ref(lease) in session.cancels_seen, "the cancel was not acknowledged")
    report = await bench.report(session, lease)
    require(report.HasField("stopped"), f"`stopped` must be reported; it was {described(report)}")
    seen = next(at for at, frame in enumerate(session.frames) if ref(lease) in frame.cancels_seen)
    told = next(at for at, frame in enumerate(session.frames) if report in frame.reports)
    require(seen <= told, "`stopped` was reported before the cancel was acknowledged")
    return report


def _require_timeout(report: pb.Report) -> None:
    require(report.failure.code == "TIMEOUT", f"a TIMEOUT must be reported; it was {described(report)}")


CHECKS = (
    Check(stops_when_cancelled),
    Check(acknowledges_a_cancel_each_time_it_is_pushed),
    Check(kills_a_handler_that_ignores_a_cancel, needs=(Feature.DEAFNESS,)),
    Check(ends_what_is_out_of_time),
    Check(kills_a_handler_that_ignores_its_time, needs=(Feature.DEAFNESS,)),
)
