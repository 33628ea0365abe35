"""Reads the jobs that change, once for all live views of this replica.

Hints name most of what changes. A poll finds what no hint tells of, creations, and what must not be missed,
ends: creations by their time, and a little way back each time, for what is committed late; ends by the feed
of events, which has all of them. Each changed job is read once, by one statement for many, and shown to every
view whose filter it fits, or has fitted. What is known of a job is what was read of it last; it is kept for
the jobs that changed last, and forgotten when nobody watches.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from uuid import UUID

import structlog

from job_api.operations import paging
from job_api.operations.job_filters import JobFilter, Position
from job_api.operations.job_matching import JobMatch
from job_api.operations.live_watching import LiveView, Shown
from job_api.operations.subscriptions import EndReason
from shared.domain.events import OutboxEventType
from shared.domain.identity import JobId, Owner
from shared.domain.jobs import TERMINAL_STATES, Job
from shared.storage.transactions import Transaction, Transactions

log = structlog.get_logger(__name__)

JOBS_PER_STEP_MAX = 500
"""Jobs in one statement, some 10 ms."""
FOUND_PER_POLL_MAX = 1_000
"""Creations, and ends, that one step of the poll finds."""
DUE_MAX = 50_000
"""Jobs that wait to be read, seconds of work; with more, the views are ended: they would show the past."""
KNOWN_MAX = 10_000
"""Jobs whose last look is kept, some 10 MB."""
LATE = timedelta(seconds=2)
"""A creation that is committed longer after its time is shown with the job's next change."""

_ENDS = (OutboxEventType.JOB_SUCCEEDED, OutboxEventType.JOB_FAILED, OutboxEventType.JOB_CANCELLED)
_FIRST = Position(datetime(1970, 1, 1, tzinfo=UTC), JobId(UUID(int=0)))


@dataclass(slots=True)
class _Found:
    """How far the poll has come.

    Attributes:
        least: It never looks back behind this; the views began there.
        newest: The newest job that it has found.
        place: It goes on behind this.
        ended: Number in the feed of the last end.
    """

    least: Position
    newest: Position
    place: Position
    ended: int


@dataclass(frozen=True, slots=True)
class _Audience:
    """All views with the same filter."""

    match: JobMatch
    views: dict[LiveView, None] = field(default_factory=dict)

    def show(self, job: Job, before: Job | None) -> None:
        fits = self.match.fits(job)
        if fits or self.match.was_left(job, before):
            shown = Shown(job, left=not fits)
            for view in self.views:
                view.show(shown)


class LiveJobs:
    """Shows live views what changes, and ends all of them if more does than can be read."""

    def __init__(self, transactions: Transactions, *, wake: asyncio.Event) -> None:
        self._transactions = transactions
        self._wake = wake
        self._audiences: dict[Owner | None, dict[str, _Audience]] = {}  # by the owner and all of the filter
        self._joining: dict[LiveView, None] = {}
        self._due: dict[JobId, None] = {}
        self._known: dict[JobId, Job] = {}
        self._found: _Found | None = None
        self._draining = False

    def join(self, view: LiveView) -> None:
        if self._draining:
            view.end(EndReason.DRAINING)
            return
        audiences = self._audiences.setdefault(view.job_filter.owner, {})
        audience = audiences.setdefault(_key(view.job_filter), _Audience(JobMatch(view.job_filter)))
        audience.views[view] = None
        self._joining[view] = None
        self._wake.set()

    def leave(self, view: LiveView) -> None:
        self._joining.pop(view, None)
        key, owner = _key(view.job_filter), view.job_filter.owner
        audiences = self._audiences.get(owner, {})
        if (audience := audiences.get(key)) is not None:
            audience.views.pop(view, None)
            if not audience.views:
                del audiences[key]
        if not audiences:
            self._audiences.pop(owner, None)
        if not self._audiences:
            self._due.clear()
            self._known.clear()
            self._found = None

    def is_watched(self) -> bool:
        """Whether hints are of any use."""
        return bool(self._audiences)

    def note(self, job_ids: Iterable[JobId]) -> None:
        """Hear that these jobs have changed."""
        if not self._audiences:
            return
        self._due.update(dict.fromkeys(job_ids))
        if len(self._due) > DUE_MAX:
            log.warning("live_views.outrun", jobs=len(self._due))
            self._due.clear()
            self._end_all(EndReason.SLOW)
        self._wake.set()

    async def drain(self) -> None:
        """End every view, and each that comes later."""
        self._draining = True
        self._end_all(EndReason.DRAINING)

    async def poll(self) -> bool:
        """Look for creations and ends, and return True if there may be more.

        Raises:
            PlatformUnavailable: Postgres is away; the views stay.
        """
        found = self._found
        if found is None:
            return False
        async with self._transactions.begin() as transaction:
            created = await transaction.jobs.created_behind(found.place, limit=FOUND_PER_POLL_MAX)
            feed = await transaction.event_feed.after(
                found.ended, limit=FOUND_PER_POLL_MAX, event_types=_ENDS
            )
        self.note(each.job_id for each in created if each.job_id not in self._known)
        self.note(job_id for each in feed.events if not self._knows_end(job_id := JobId(each.aggregate_id)))
        found.ended = feed.through
        full = len(created) == FOUND_PER_POLL_MAX
        _move_on(found, created[-1] if created else found.newest, full=full)
        return full or found.ended < feed.last

    async def step(self) -> bool:
        """Begin views, read jobs that are due and show them; return True if there may be more.

        Raises:
            PlatformUnavailable: Postgres is away; the views stay.
        """
        if not self._audiences:
            return False
        chosen = list(islice(self._due, JOBS_PER_STEP_MAX))
        for job_id in chosen:  # before reading: a hint that comes meanwhile counts again
            del self._due[job_id]
        try:
            async with self._transactions.begin() as transaction:
                found = self._found or await _here(transaction)
                jobs = await transaction.jobs.get_many(chosen) if chosen else {}
        except BaseException:
            self._due.update(dict.fromkeys(chosen))
            raise
        self._begin(found)
        for job_id in chosen:
            if job_id in jobs:
                self._show(jobs[job_id])
        return bool(self._due)

    def _begin(self, found: _Found) -> None:
        if self._audiences:  # the last view may have left meanwhile
            self._found = found
        for view in self._joining:
            view.begin()
        self._joining.clear()

    def _show(self, job: Job) -> None:
        before = self._known.pop(job.job_id, None)
        self._known[job.job_id] = job
        if len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]
        if job != before:
            for owner in (job.owner, None):
                for audience in self._audiences.get(owner, {}).values():
                    audience.show(job, before)

    def _knows_end(self, job_id: JobId) -> bool:
        return job_id in self._known and self._known[job_id].state in TERMINAL_STATES

    def _end_all(self, why: EndReason) -> None:
        for audiences in self._audiences.values():
            for audience in audiences.values():
                for view in audience.views:
                    view.end(why)


def _key(job_filter: JobFilter) -> str:
    return json.dumps(paging.described(job_filter), sort_keys=True)


async def _here(transaction: Transaction) -> _Found:
    newest = await transaction.jobs.page(JobFilter(), after=None, limit=1)
    here = Position(newest[0].create_time, newest[0].job_id) if newest else _FIRST
    feed = await transaction.event_feed.after(0, limit=0)
    return _Found(here, here, here, feed.last)


def _move_on(found: _Found, last: Position, *, full: bool) -> None:
    """Go on behind the last one, or, if that was all, look again at the latest for what is committed late."""
    found.newest = max(found.newest, last, key=_in_time)
    back = Position(found.newest.create_time - LATE, found.least.job_id)
    found.place = last if full else max(found.least, back, key=_in_time)


def _in_time(position: Position) -> tuple[datetime, JobId]:
    return position.create_time, position.job_id
