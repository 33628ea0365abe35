"""An executor's own end, at a SIGTERM."""

from __future__ import annotations

import time

from shared.gen.baton.v1 import execution_service_pb2 as pb
from verification.conformance.executors.bench import (
    INTERVAL_SECONDS,
    QUEUE,
    STOP_SECONDS_MAX,
    Bench,
    a_synthetic,
    described,
)
from verification.conformance.executors.check import Check
from verification.peers.service import ScriptedSession
from verification.unmet import require

_LONG_SECONDS = 300.0


async def takes_no_more_leases_once_it_is_to_stop(bench: Bench) -> None:
    """After a SIGTERM there are no more credits, and a lease that crosses it is given back unstarted."""
    session = await bench.session()
    session.answering_reports = False
    last = await bench.grant(session, duration_seconds=0.5)
    crossing = a_synthetic(duration_seconds=0.2)
    await bench.until(session, lambda: bench.credits_left(session), "there was no credit for another lease")
    bench.executor.terminate()
    report = await bench.report(session, last, seconds=STOP_SECONDS_MAX)
    require(report.HasField("success") or _given_back(report), f"a lease was {described(report)} at the end")
    credits = session.credits(QUEUE)
    await bench.grant_all(session, crossing)
    back = await bench.report(session, crossing)
    require(_given_back(back), f"a lease that crossed the end must be given back; it was {described(back)}")
    answers = [
        pb.ReportAnswer(lease=each.lease, outcome=pb.REPORT_OUTCOME_ACCEPTED) for each in (report, back)
    ]
    session.answering_reports = True
    await session.send(answers=answers)
    await _require_peaceful_end(bench, session)
    more = session.credits(QUEUE) - credits
    require(not more, f"{more} credits were given after the SIGTERM")


async def gives_back_what_it_can_not_finish(bench: Bench) -> None:
    """What is not done in time goes back as DRAINING, alive until then; a goodbye and exit code 0 follow."""
    session = await bench.session()
    lease = await bench.grant(session, duration_seconds=_LONG_SECONDS, time_left=_LONG_SECONDS, grace=20.0)
    heartbeats = len(session.heartbeats_of(lease))
    began = time.monotonic()
    bench.executor.terminate()
    report = await bench.report(session, lease, seconds=STOP_SECONDS_MAX)
    require(_given_back(report), f"it must be given back as DRAINING; it was {described(report)}")
    due = int((time.monotonic() - began) / (3 * INTERVAL_SECONDS)) - 1
    came = len(session.heartbeats_of(lease)) - heartbeats
    require(
        came >= due, f"{came} heartbeats came between the SIGTERM and the give-back; {due} were due at least"
    )
    await _require_peaceful_end(bench, session)


def _given_back(report: pb.Report) -> bool:
    return report.give_back.reason == pb.GIVE_BACK_REASON_DRAINING


async def _require_peaceful_end(bench: Bench, session: ScriptedSession) -> None:
    await bench.until_over(session)
    said = bool(session.frames) and session.frames[-1].HasField("goodbye")
    require(said, "the last frame before the end was no goodbye")
    code = await bench.executor.exit_code(STOP_SECONDS_MAX)
    require(code == 0, f"it ended with the exit code {code}, not 0")


CHECKS = (
    Check(takes_no_more_leases_once_it_is_to_stop),
    Check(gives_back_what_it_can_not_finish),
)
