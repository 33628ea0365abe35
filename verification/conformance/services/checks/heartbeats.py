"""What keeps a lease, and what becomes of one that nobody keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from shared.gen.baton.v1 import execution_service_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from verification.conformance.services.check import Theme
from verification.conformance.services.session import Session, session, unknown_lease
from verification.conformance.services.target import NotJudged, Target
from verification.peers.executor import heartbeat, ref
from verification.unmet import Unmet, require

_LEASE_SECONDS_MAX = 5.0
"""Of leases whose end is waited for."""
_REAPER_SECONDS_MAX = 30.0
"""How long the reaper may take to look."""


async def heartbeats_are_echoed_and_carry_progress(target: Target) -> None:
    """The number of a frame with heartbeats comes back once they are durable; callers see the progress."""
    job = await target.due_job()
    async with session(target) as it:
        lease = await it.lease_of(job.job_id)
        await it.beat(5, lease, progress=40, progress_message="two of five")
        shown = await target.control.get(job.job_id)
        said = (shown.progress, shown.progress_message)
        require(said == (40, "two of five"), f"callers see {said}")
        await it.beat(9, lease)
        shown = await target.control.get(job.job_id)
        require((shown.progress, shown.progress_message) == said, "a heartbeat without progress changed it")
        recorded = [each.heartbeats_recorded for each in it.executor.frames if each.heartbeats_recorded]
        require(max(recorded) == 9, f"numbers came back as {recorded}")  # noqa: PLR2004 - as sent above
        require(not it.executor.lost, "a lease that is held is called lost")
        require(shown.state == job_pb2.JOB_STATE_RUNNING, f"its state is {shown.state}")
        await it.succeed(lease)


async def a_heartbeat_of_what_is_not_held_is_told_as_lost(target: Target) -> None:
    """A heartbeat that names a lease which the executor does not hold is answered with `lost`."""
    job = await target.due_job()
    async with session(target) as it:
        lease = await it.lease_of(job.job_id)
        beats = [heartbeat(unknown_lease()), heartbeat(lease)]
        await it.executor.send(heartbeats=beats, heartbeat_number=1)
        await it.executor.until(lambda: it.executor.lost)
        require(list(it.executor.lost) == [ref(unknown_lease())], f"lost is {list(it.executor.lost)}")
        await it.succeed(lease)


async def heartbeats_keep_a_lease_and_silence_ends_it(target: Target) -> None:
    """A lease with heartbeats stays; a silent one ends as lost, or as given back if it was never accepted."""
    jobs = [(await target.due_job()).job_id for _ in range(3)]
    async with session(target) as it:
        kept, accepted, untouched = [await it.lease_of(each) for each in jobs]
        lease_seconds = kept.lease_duration.ToTimedelta().total_seconds()
        if lease_seconds > _LEASE_SECONDS_MAX:
            for each in (kept, accepted, untouched):
                await it.succeed(each)
            raise NotJudged(f"leases last {lease_seconds:.0f} s here, too long to wait for their end")
        await it.beat(1, kept, accepted)
        await _beat_until_ended(target, it, kept, jobs[1:], seconds=1.5 * lease_seconds + _REAPER_SECONDS_MAX)
        outcomes = [(await target.control.attempts(each))[0].outcome for each in jobs]
        wanted = [
            job_pb2.ATTEMPT_OUTCOME_UNSPECIFIED,
            job_pb2.ATTEMPT_OUTCOME_LOST,
            job_pb2.ATTEMPT_OUTCOME_GIVEN_BACK,
        ]
        require(outcomes == wanted, f"kept, accepted and untouched ended as {outcomes}, not {wanted}")
        losses = [(await target.control.get(each)).loss_count for each in jobs]
        require(losses == [0, 1, 0], f"the losses are {losses}")
        answer = await it.succeed(accepted)
        require(answer.outcome == pb.REPORT_OUTCOME_LEASE_LOST, f"a late report gets {answer.outcome}")
        answer = await it.succeed(kept)
        require(answer.outcome == pb.REPORT_OUTCOME_ACCEPTED, f"the kept lease gets {answer.outcome}")


async def _beat_until_ended(
    target: Target, it: Session, kept: pb.Lease, ending: Sequence[str], *, seconds: float
) -> None:
    interval = kept.heartbeat_interval.ToTimedelta().total_seconds()
    deadline, number = target.history.now() + seconds, 2
    while not all([(await target.control.attempts(each))[0].HasField("end_time") for each in ending]):
        if target.history.now() > deadline:
            raise Unmet(f"silent leases have not ended after {seconds:.0f} s")
        await it.beat(number, kept)
        number += 1
        await asyncio.sleep(interval / 2)


THEME = Theme(
    "heartbeats",
    (
        heartbeats_are_echoed_and_carry_progress,
        a_heartbeat_of_what_is_not_held_is_told_as_lost,
        heartbeats_keep_a_lease_and_silence_ends_it,
    ),
    executing=True,
)
