"""Why a job is not running, in words: from what is known of it to reasons, for those who may know them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from shared.domain.identity import JobId
from shared.domain.jobs import WaitCause
from shared.domain.pauses import Pausable, Pause, PauseKind
from shared.storage.explanations import AbleExecutors, Running, Standing, UsedLimits, WaitingRow
from shared.storage.jobs_ahead import Ahead
from shared.storage.queue_figures import SEEN_WITHIN


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitReason:
    """One reason.

    Attributes:
        sentence: For people.
        until_time: When it passes by itself; None if nobody knows.
        holding_job_ids: Of a limit: jobs that use it up and that the caller may see.
        count: How many jobs go first, or how many a limit lets through.
        more: Whether more jobs may go first than were counted.
        pause: Of what is paused: by whom, and since when.
    """

    cause: WaitCause
    sentence: str
    until_time: datetime | None = None
    holding_job_ids: Sequence[JobId] = ()
    count: int = 0
    more: bool = False
    pause: Pause | None = None


def of_running(standing: Standing, running: Running) -> WaitReason:
    return WaitReason(
        cause=WaitCause.RUNNING,
        sentence=(
            f"It runs: attempt {standing.attempt} since {_moment(running.grant_time)},"
            f" by the executor {running.executor_name}."
        ),
    )


def of_ended(standing: Standing) -> WaitReason:
    error = f" with {standing.error_code}" if standing.error_code else ""
    ended = f", at {_moment(standing.finish_time)}" if standing.finish_time else ""
    return WaitReason(cause=WaitCause.ENDED, sentence=f"It has ended: it is {standing.state}{error}{ended}.")


def of_dead(dispatch: WaitingRow, *, inside: bool) -> WaitReason:
    """Say that a dispatch is dead; how, and what to do about it, if the caller is an operator."""
    sentence = "Its dispatch could not be delivered and is dead: an operator has to send it again."
    if inside:
        number = dispatch.outbox_id
        sentence = (
            f"Its dispatch, message {number} of the outbox, could not be delivered and is dead"
            f" ({dispatch.error_message or dispatch.error_code}):"
            f" mend the cause and send it again with `baton outbox resend {number}`."
        )
    return WaitReason(cause=WaitCause.DISPATCH_DEAD, sentence=sentence)


def of_time(standing: Standing) -> Iterator[WaitReason]:
    """Yield that the next attempt is not due, if so."""
    if standing.due or standing.next_attempt_time is None:
        return
    due = _moment(standing.next_attempt_time)
    if standing.attempt == 0:
        cause, sentence = WaitCause.NOT_DUE, f"Its run time has not come: it may start at {due}."
    else:
        error = f"; its last error is {standing.error_code}" if standing.error_code else ""
        cause = WaitCause.BACKOFF
        sentence = f"It backs off until {due}, after attempt {standing.attempt}{error}."
    yield WaitReason(cause=cause, sentence=sentence, until_time=standing.next_attempt_time)


def of_pauses(standing: Standing, pauses: Mapping[Pausable, Pause]) -> Iterator[WaitReason]:
    """Yield that the job's queue, or its type, is paused, if so."""
    queue = pauses.get(Pausable(PauseKind.QUEUE, standing.queue))
    if queue is not None:
        said = _paused(f"queue {standing.queue}", queue)
        yield WaitReason(cause=WaitCause.QUEUE_PAUSED, sentence=said, pause=queue)
    job_type = pauses.get(Pausable(PauseKind.JOB_TYPE, standing.job_type))
    if job_type is not None:
        said = _paused(f"job type {standing.job_type}", job_type)
        yield WaitReason(cause=WaitCause.JOB_TYPE_PAUSED, sentence=said, pause=job_type)


def _paused(what: str, pause: Pause) -> str:
    note = f": {pause.note}" if pause.note else ""
    return f"Its {what} was paused by {pause.subject} at {_moment(pause.pause_time)}{note}."


def of_limits(used: UsedLimits, *, inside: bool) -> Iterator[WaitReason]:
    """Yield each limit of the job's type that is used up.

    Args:
        inside: Whether the caller may know the jobs of other owners.
    """
    limits = used.limits
    if limits.at_once is not None and used.in_all >= limits.at_once:
        yield WaitReason(
            cause=WaitCause.LIMIT,
            sentence=f"Its job type has a limit of {_leases(limits.at_once)} at once, and all are taken.",
            holding_job_ids=used.holders if inside else used.own_holders,
            count=limits.at_once,
        )
    if limits.at_once_per_owner is not None and used.of_owner >= limits.at_once_per_owner:
        granted = _leases(limits.at_once_per_owner)
        yield WaitReason(
            cause=WaitCause.LIMIT,
            sentence=f"Each owner may have {granted} of its job type at once, and its owner has them.",
            holding_job_ids=used.own_holders,
            count=limits.at_once_per_owner,
        )
    if limits.per_second is not None and used.rate_until_time is not None:
        until, rate = used.rate_until_time, f"{limits.per_second:g} leases a second"
        sentence = f"Its job type has a limit of {rate}, which is used up until {_moment(until)}."
        yield WaitReason(cause=WaitCause.RATE, sentence=sentence, until_time=until)


def of_executors(standing: Standing, able: AbleExecutors, *, connected: bool) -> Iterator[WaitReason]:
    """Yield that nobody can do the job, if so.

    Args:
        connected: Whether a service has just told of an executor that can, or none could tell.
    """
    if able.willing and connected:
        return
    yield WaitReason(cause=WaitCause.NO_EXECUTOR, sentence=_no_executor(standing, able))


def of_others(ahead: Ahead, *, demand: int | None) -> WaitReason:
    """Say how many jobs go first.

    Args:
        demand: Leases that executors could take now; None if Redis is away.
    """
    return WaitReason(
        cause=WaitCause.BEHIND,
        sentence=f"{_first(ahead)}{_room(demand)}.",
        count=ahead.count,
        more=ahead.more,
    )


def _first(ahead: Ahead) -> str:
    if ahead.more:
        return f"{ahead.count:,} jobs or more go first"
    match ahead.count:
        case 0:
            return "No other job goes first"
        case 1:
            return "1 job goes first"
        case count:
            return f"Up to {count:,} jobs go first"


def _room(demand: int | None) -> str:
    match demand:
        case None:
            return ", and Redis is away: nothing is handed out until it is back"
        case 0:
            return ", and all executors that can do it are busy"
        case _:
            return ", and executors have room: it is about to start"


def _no_executor(standing: Standing, able: AbleExecutors) -> str:
    versions = (
        f"{standing.job_type} with the input schema version {standing.input_schema_version}"
        f" and the output schema version {standing.output_schema_version}"
    )
    if able.willing:
        minutes = int(SEEN_WITHIN.total_seconds() / 60)
        return (
            f"No connected executor can do {versions}: of {_executors(able.willing)} that can"
            f" we heard in the last {minutes} minutes, but not now."
        )
    if able.refusing:
        return (
            f"{_executors(able.refusing)} can do {versions}, and refused this job: another one is needed,"
            " or a new start."
        )
    others = f"; {_executors(able.of_other_versions)} can in others" if able.of_other_versions else ""
    return f"No connected executor can do {versions}{others}."


def _leases(count: int) -> str:
    return "1 lease" if count == 1 else f"{count:,} leases"


def _executors(count: int) -> str:
    return "1 executor" if count == 1 else f"{count:,} executors"


def _moment(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"
