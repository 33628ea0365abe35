"""One job of the model: its state, its lease, what it has used up, and all that was told about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from shared.domain.identity import IncarnationId, LeaseToken, SessionId, StreamName

LEASE = timedelta(seconds=30)
SILENCE = LEASE * 1.5
GRACE = timedelta(seconds=10)
MAX_RETRIES = 2
LOSSES_MAX = 3
FREE_GIVE_BACKS = 3
BACKOFF = timedelta(seconds=1)
BACKOFF_CAP = timedelta(minutes=5)
UNIFORM = 0.5


@dataclass(slots=True, kw_only=True)
class ModelLease:
    token: LeaseToken
    session_id: SessionId
    incarnation_id: IncarnationId
    grant_time: datetime
    heartbeat_time: datetime
    reprieve_time: datetime
    deadline_time: datetime
    accepted: bool = False
    progress: int = 0


@dataclass(slots=True, kw_only=True)
class ModelJob:
    """A job; `row` is its dispatch row's state, None while it waits for no executor."""

    stream: StreamName
    available: datetime
    start_by: datetime | None
    due: datetime | None = None
    row: str | None = "pending"
    delivered_time: datetime | None = None
    state: str = "QUEUED"
    attempt: int = 0
    lease: ModelLease | None = None
    failures: int = 0
    internal_failures: int = 0
    losses: int = 0
    give_backs: int = 0
    run_alone: bool = False
    refused_by: set[IncarnationId] = field(default_factory=set)
    cancel_time: datetime | None = None
    cancel_seen: bool = False
    cancel_forced: bool = False
    error_code: str | None = None
    finish_time: datetime | None = None
    events: list[tuple[str, str, int, str | None]] = field(default_factory=list)
    attempts: list[dict[str, Any]] = field(default_factory=list)
    outgoing: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.due = self.available
        self.tell("created")

    @property
    def ended(self) -> bool:
        return self.finish_time is not None

    @property
    def held(self) -> ModelLease:
        assert self.lease is not None
        return self.lease

    def tell(self, kind: str, outcome: str | None = None) -> None:
        self.events.append((kind, self.state, self.attempt, outcome))

    def put_back(self) -> None:
        self.row, self.delivered_time = "pending", None

    def delivered_before(self, time: datetime) -> bool:
        return self.delivered_time is not None and self.delivered_time < time

    def delivered_by(self, time: datetime) -> bool:
        return self.delivered_time is not None and self.delivered_time <= time

    def start(self, lease: ModelLease) -> None:
        assert self.lease is None
        self.row = self.delivered_time = self.due = None
        self.lease = lease
        self.state = "RUNNING"
        self.attempt += 1
        self.tell("started")

    def finish(self, state: str, now: datetime, why: str | None = None) -> None:
        self.row = self.delivered_time = self.due = None
        self.error_code = why
        self.state, self.finish_time = state, now
        self.tell(state.lower())
        self.outgoing.append(f"job.{state.lower()}")

    def end_attempt(self, outcome: str, code: str | None, now: datetime, *, suspect: bool = False) -> None:
        """End the attempt that runs, and decide what follows."""
        lease, self.lease = self.held, None
        self.attempts.append({"attempt": self.attempt, "token": lease.token, "outcome": outcome})
        if outcome == "succeeded":
            self.run_alone = False
            self.finish("SUCCEEDED", now)
            return
        self.error_code = code or self.error_code
        self._count(outcome, code)
        self.tell("attempt_ended", outcome)
        follows = self._what_follows(outcome, code)
        self.run_alone = suspect or (self.run_alone and isinstance(follows, timedelta))
        if isinstance(follows, str):
            self.finish(follows, now, self.error_code if follows == "FAILED" else None)
        else:
            self.row, self.due = "pending", now + follows
            self.available = self.due
            self.tell("retry_scheduled")

    def _count(self, outcome: str, code: str | None) -> None:
        self.give_backs = self.give_backs + 1 if outcome == "given_back" else 0
        self.losses += outcome == "lost"
        self.failures += outcome in ("failed", "timed_out")
        self.internal_failures += outcome == "failed" and code == "INTERNAL_ERROR"

    def _what_follows(self, outcome: str, code: str | None) -> str | timedelta:
        """A final state, or the wait before the next attempt."""
        if self.cancel_time is not None:
            return "CANCELLED"
        if outcome == "given_back":
            beyond = self.give_backs - FREE_GIVE_BACKS
            return _wait(beyond) if beyond > 0 else timedelta(0)
        if outcome == "lost":
            return "FAILED" if self.losses >= LOSSES_MAX else _wait(self.losses)
        hopeless = code == "INPUT_BROKEN" or self.internal_failures > 1
        return "FAILED" if hopeless or self.failures > MAX_RETRIES else _wait(self.failures)

    def remember(self, token: LeaseToken, report: str, answer: str) -> None:
        (attempt,) = (each for each in self.attempts if each["token"] == token)
        attempt.update(report=report, answer=answer)

    def answer_again(self, token: LeaseToken, report: str) -> str:
        """The answer to a report under a token that stands no more."""
        for each in self.attempts:
            if each["token"] == token and "report" in each:
                return str(each["answer"]) if each["report"] == report else "refused"
        return "lease_lost"


def _wait(failures: int) -> timedelta:
    return min(BACKOFF * float(2 ** (failures - 1)), BACKOFF_CAP) * UNIFORM
