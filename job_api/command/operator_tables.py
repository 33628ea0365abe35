"""Tables of what operators look at."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from job_api.command.show import moment, table

if TYPE_CHECKING:
    from job_api.client import AuditRecordView, ExecutorView, OutboxMessageView, PauseView, QueueView


def outbox_messages(views: Sequence[OutboxMessageView]) -> None:
    """Print what each message is about, and what became of it; its payload is in its JSON form."""
    rows = [
        (f"{view.outbox_id}", view.event_type, f"{view.aggregate_id}", f"{view.state}", f"{view.tries}",
         moment(view.delivered_time or view.available_time), _error(view))
        for view in views
    ]  # fmt: skip
    table(("number", "event", "job", "state", "tries", "time", "error"), rows)


def audit_records(views: Sequence[AuditRecordView]) -> None:
    """Print who did what to what; the owner only where it is another than the caller."""
    rows = [
        (moment(view.record_time), view.subject, view.action,
         f"{view.aggregate_id}" if view.aggregate_id else view.name,
         "" if view.owner == view.subject else view.owner)
        for view in views
    ]  # fmt: skip
    table(("time", "subject", "action", "what", "owner"), rows)


def executors(views: Sequence[ExecutorView]) -> None:
    rows = [
        (view.executor_name, f"{view.incarnation_id}", view.runtime, f"{view.leases}",
         moment(view.last_seen_time), ", ".join(view.job_types))
        for view in views
    ]  # fmt: skip
    table(("executor", "incarnation", "runtime", "leases", "last seen", "job types"), rows)


def queues(views: Sequence[QueueView]) -> None:
    rows = [
        (view.queue, view.group, f"{view.waiting}{'+' if view.more_waiting else ''}", f"{view.running}",
         age(view.oldest_due_age), f"{view.finished_last_minute}", f"{view.executors}",
         "" if view.credits is None else f"{view.credits}", _pause(view))
        for view in views
    ]  # fmt: skip
    table(
        ("queue", "group", "waiting", "running", "oldest", "/min", "executors", "credits", "paused"),
        rows,
    )


def _error(view: OutboxMessageView) -> str:
    if not view.last_error_code:
        return ""
    message = view.last_error_message.removeprefix(view.last_error_code).lstrip(": ")
    return f"{view.last_error_code}: {message}"


def age(age: timedelta | None) -> str:
    """Whole seconds, as 1:02:03."""
    return "" if age is None else f"{timedelta(seconds=int(age.total_seconds()))}"


def _pause(view: QueueView) -> str:
    said = [] if view.pause is None else [_paused(view.pause)]
    said += [f"{job_type} {_paused(each)}" for job_type, each in view.job_type_pauses.items()]
    return "; ".join(said)


def _paused(pause: PauseView) -> str:
    note = f": {pause.note}" if pause.note else ""
    return f"by {pause.subject} since {moment(pause.pause_time)}{note}"
