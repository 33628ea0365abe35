"""What commands print of batches."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from job_api.command.show import line, moment, several_owners, state_style, table

if TYPE_CHECKING:
    from job_api.client import BatchCounters, BatchEstimateView, BatchItemView, BatchView

FAILED_SHOWN_MAX = 20
"""Of a batch's failed items; the rest would push the batch itself out of sight."""


def batch(view: BatchView) -> None:
    """Print what there is to say of a batch, a line for each thing, and its first failed items."""
    told = {
        "batch": f"{view.batch_id}",
        "title": view.title,
        "type": view.job_type,
        "owner": view.owner,
        "state": f"{view.state}",
        "progress": f"{view.progress} % of {view.size} items",
        "items": counted(view.counters),
        "created": moment(view.create_time),
        "started": moment(view.start_time),
        "settled": moment(view.settle_time),
        "about": f"{view.target.type} {view.target.id}" if view.target else "",
        "labels": ", ".join(f"{key}={value}" for key, value in sorted(view.labels.items())),
    }
    for name, value in told.items():
        if value:
            line(f"{name:<10} {value}", style=state_style(value) if name == "state" else None)
    failed = view.failed_items or ()
    if failed:
        line("")
        items(failed[:FAILED_SHOWN_MAX])
    if view.counters.failed > FAILED_SHOWN_MAX:
        line(f"{view.counters.failed} items failed; baton batch items {view.batch_id} --state failed has all")


def batches(views: Sequence[BatchView]) -> None:
    owner = several_owners(views)
    rows = [
        (f"{view.batch_id}", view.title, view.job_type, f"{view.state}", f"{view.progress} %", f"{view.size}",
         f"{view.counters.failed or ''}", moment(view.create_time), *(view.owner for _ in owner))
        for view in views
    ]  # fmt: skip
    table(("batch", "title", "type", "state", "progress", "items", "failed", "created", *owner), rows)


def items(views: Sequence[BatchItemView]) -> None:
    rows = [
        (f"{view.number}", f"{view.job.job_id}", f"{view.job.state}", f"{view.attempt_count}",
         "yes" if view.selected else "", _error(view))
        for view in views
    ]  # fmt: skip
    table(("item", "job", "state", "attempts", "selected", "error"), rows)


def estimate(view: BatchEstimateView) -> None:
    work = timedelta(seconds=round(view.work_time.total_seconds()))
    line(f"{items_said(view.size)}: cost {view.cost:f}, and {work} of work, one after the other")


def counted(counters: BatchCounters) -> str:
    """Say how many items are where; places without any are left out."""
    places = {
        "succeeded": counters.succeeded,
        "failed": counters.failed,
        "skipped": counters.skipped,
        "running": counters.running,
        "waiting": counters.waiting,
    }
    return ", ".join(f"{count} {place}" for place, count in places.items() if count)


def items_said(count: int) -> str:
    """Count items in words."""
    return "1 item" if count == 1 else f"{count} items"


def _error(view: BatchItemView) -> str:
    error = view.job.error or view.job.last_attempt_error
    return f"{error.code}: {error.message}" if error else ""
