"""A second, small telling of what becomes of jobs: in memory, one command at a time.

It shares no code with the engine. Where the engine may choose (which due rows are told to Redis, when there
is less room than work) the model is told the choice, and refuses one that is not allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from datetime import datetime, timedelta

from shared.domain.identity import IncarnationId, JobId, SessionId, StreamName
from shared.domain.leases import LeaseRef
from shared.streams.lease_streams import Entry
from tests.support.core_model_job import GRACE, SILENCE, ModelJob, ModelLease
from tests.support.storage import Session

PUT_BACK, PUT_BACK_FROM_ALL = timedelta(seconds=0.2), timedelta(seconds=5)
PULSE_FRESH = timedelta(seconds=3)
UNCLAIMED = timedelta(seconds=30)
RUN = timedelta(seconds=100) + GRACE
END_OF = {
    "success": ("succeeded", None),
    "provider_away": ("failed", "PROVIDER_UNAVAILABLE"),
    "bad_input": ("failed", "INPUT_BROKEN"),
    "engine_fault": ("failed", "INTERNAL_ERROR"),
    "out_of_time": ("timed_out", "TIMEOUT"),
    "process_died": ("lost", "EXECUTOR_LOST"),
    "given_back": ("given_back", None),
    "refused": ("given_back", None),
    "suspect": ("given_back", None),
    "stopped": ("given_back", None),
}


class CoreModel:
    """All jobs and sessions."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.pulse_time = now
        self.jobs: dict[JobId, ModelJob] = {}
        self.keys: dict[tuple[str, str], tuple[JobId, object]] = {}
        self.sessions: dict[IncarnationId, SessionId] = {}

    def create(
        self, job_id: JobId, *, stream: StreamName, run_time: datetime | None, start_by: datetime | None
    ) -> None:
        available = run_time or self.now
        self.jobs[job_id] = ModelJob(stream=stream, available=available, start_by=start_by)

    def cancel(self, job_id: JobId) -> str:
        """Return what the caller is told."""
        job = self.jobs[job_id]
        if job.state == "CANCELLED":
            return "JOB_ALREADY_CANCELLED"
        if job.ended:
            return "JOB_NOT_CANCELLABLE"
        if job.cancel_time is None:
            job.cancel_time = self.now
            if job.lease is None:
                job.finish("CANCELLED", self.now)
            else:
                job.tell("cancel_requested")
        return "OK"

    def dispatch(self, missing: Set[StreamName], delivered: Set[JobId]) -> None:
        """Rows of lost streams are pending again if somebody looks; then due ones may be delivered."""
        looked_at = {each.stream for each in self.jobs.values() if each.row == "pending"}
        for job in self.jobs.values():
            if job.row == "delivered" and job.stream in missing & looked_at:
                job.put_back()
        for job_id in delivered:
            job = self.jobs[job_id]
            if job.row == "pending":
                assert job.available <= self.now, f"{job_id} was dispatched before it was due"
                job.row, job.delivered_time = "delivered", self.now

    def waiting_due(self, stream: StreamName) -> list[JobId]:
        """The jobs of a stream that could be dispatched now."""
        return [
            job_id
            for job_id, job in self.jobs.items()
            if job.stream == stream and job.row == "pending" and job.available <= self.now
        ]

    def sweep(self, missing: Set[StreamName]) -> None:
        old = {each.stream for each in self.jobs.values() if each.delivered_before(self.now - UNCLAIMED)}
        for job in self.jobs.values():
            lost = job.row == "delivered" and job.stream in missing
            unclaimed = job.stream in old and job.delivered_by(self.now - UNCLAIMED)
            if lost or unclaimed:
                job.put_back()

    def claim(self, session: Session, entries: Sequence[Entry]) -> set[JobId]:
        """Return the jobs for which a lease is to be granted; `granted` tells the tokens."""
        wanted = set[JobId]()
        for entry in entries:
            job = self.jobs[entry.job_id]
            if self._may_claim(job, session, entry.attempt):
                wanted.add(entry.job_id)
            elif job.row == "delivered" and job.attempt + 1 == entry.attempt:
                job.put_back()
                wait = PUT_BACK_FROM_ALL if self._all_have_refused(job, session) else PUT_BACK
                job.available = max(job.available, self.now + wait)
        return wanted

    def _all_have_refused(self, job: ModelJob, session: Session) -> bool:
        return session.incarnation_id in job.refused_by and self.sessions.keys() <= job.refused_by

    def _may_claim(self, job: ModelJob, session: Session, attempt: int) -> bool:
        return (
            self.sessions.get(session.incarnation_id) == session.session_id
            and job.row is not None
            and attempt == job.attempt + 1
            and job.available <= self.now
            and (job.attempt > 0 or job.start_by is None or job.start_by > self.now)
            and session.incarnation_id not in job.refused_by
        )

    def granted(self, session: Session, ref: LeaseRef) -> None:
        job = self.jobs[ref.job_id]
        job.start(
            ModelLease(
                token=ref.token,
                session_id=session.session_id,
                incarnation_id=session.incarnation_id,
                grant_time=self.now,
                heartbeat_time=self.now,
                reprieve_time=self.now,
                deadline_time=self.now + RUN,
            )
        )

    def held(self, ref: LeaseRef) -> ModelLease | None:
        """The lease, if its token is the job's current one."""
        lease = self.jobs[ref.job_id].lease
        return lease if lease is not None and lease.token == ref.token else None

    def heartbeat(self, refs: Sequence[LeaseRef]) -> tuple[set[LeaseRef], set[LeaseRef]]:
        """Return the lost ones, and those whose cancel has not been seen."""
        lost, cancels = set[LeaseRef](), set[LeaseRef]()
        for ref in refs:
            lease, job = self.held(ref), self.jobs[ref.job_id]
            if lease is None:
                lost.add(ref)
                continue
            lease.accepted, lease.heartbeat_time, lease.progress = True, self.now, 50
            if job.cancel_time is not None and not job.cancel_seen:
                cancels.add(ref)
        return lost, cancels

    def report(self, ref: LeaseRef, report: str) -> str:
        """Return the answer."""
        job = self.jobs[ref.job_id]
        lease = self.held(ref)
        if lease is None:
            return job.answer_again(ref.token, report)
        outcome, code = END_OF[report]
        suspect = report == "suspect" and job.cancel_time is None
        if report == "refused" and job.cancel_time is None:
            job.refused_by.add(lease.incarnation_id)
        if job.cancel_time is not None:
            outcome, code = "cancelled", None
        job.end_attempt(outcome, code, self.now, suspect=suspect)
        answer = "accepted"
        if not job.ended:
            answer = "retry_scheduled"
        elif job.state == "CANCELLED" and report != "stopped":
            answer = "cancelled_instead"
        job.remember(ref.token, report, answer)
        return answer

    def see_cancels(self, refs: Sequence[LeaseRef]) -> set[JobId]:
        seen = set[JobId]()
        for ref in refs:
            job = self.jobs[ref.job_id]
            if self.held(ref) and job.cancel_time is not None and not job.cancel_seen:
                job.cancel_seen = True
                job.tell("cancel_seen")
                seen.add(ref.job_id)
        return seen

    def hello(self, session: Session, named: Sequence[LeaseRef]) -> set[LeaseRef]:
        """Return what it keeps."""
        self.sessions[session.incarnation_id] = session.session_id
        self._give_back(session.incarnation_id, named)
        kept = set[LeaseRef]()
        for ref in named:
            lease = self.held(ref)
            if lease is not None and lease.incarnation_id == session.incarnation_id:
                lease.session_id, lease.accepted, lease.heartbeat_time = session.session_id, True, self.now
                kept.add(ref)
        return kept

    def goodbye(self, session: Session) -> bool:
        if self.sessions.get(session.incarnation_id) != session.session_id:
            return False
        del self.sessions[session.incarnation_id]
        self._give_back(session.incarnation_id, ())
        return True

    def _give_back(self, incarnation_id: IncarnationId, named: Sequence[LeaseRef]) -> None:
        tokens = {each.token for each in named}
        for job in self._leased():
            if job.held.incarnation_id == incarnation_id and job.held.token not in tokens:
                outcome = "given_back" if job.cancel_time is None else "cancelled"
                job.end_attempt(outcome, None, self.now)

    def pulse(self) -> None:
        """Give the time since the last one back, if it is long, as far as each lease stood through it."""
        silent_from, self.pulse_time = self.pulse_time, self.now
        if self.now - silent_from > PULSE_FRESH:
            for lease in (each.held for each in self._leased()):
                lease.heartbeat_time += self.now - max(silent_from, lease.heartbeat_time)
                lease.deadline_time += self.now - max(silent_from, lease.grant_time)
                lease.reprieve_time = self.now

    def reap(self) -> None:
        if self.pulse_time <= self.now - PULSE_FRESH:
            return
        for job in list(self._leased()):
            lease = job.held
            silent = lease.heartbeat_time + SILENCE < self.now
            asked = job.cancel_time
            too_late = lease.deadline_time < self.now
            ignored = asked is not None and max(asked, lease.reprieve_time) + GRACE < self.now
            if asked is not None and (silent or too_late or ignored):
                job.cancel_forced = ignored or not silent
                job.end_attempt("cancelled", None, self.now)
            elif silent and not lease.accepted:
                job.end_attempt("given_back", None, self.now)
            elif silent:
                job.end_attempt("lost", "EXECUTOR_LOST", self.now)
            elif too_late:
                job.end_attempt("timed_out", "TIMEOUT", self.now)

    def sweep_start_by(self) -> None:
        for job in self.jobs.values():
            if job.state == "QUEUED" and job.start_by is not None and job.start_by <= self.now:
                job.cancel_time = self.now
                job.finish("CANCELLED", self.now, "START_BY_PASSED")

    def _leased(self) -> Iterator[ModelJob]:
        return (job for job in self.jobs.values() if job.lease is not None)
