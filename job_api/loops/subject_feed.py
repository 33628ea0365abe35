"""Reads what is new about watched subjects, once for all the watchers of each.

A hint, a new watcher or the slow poll says which subjects to look at; the step reads about many of them at a
time. Postgres is authoritative, and each watcher's position says what it has seen, so a lost hint costs a
poll, and a crash a resume from the cursor.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar, Generic, TypeVar

import structlog

from job_api.loops.slow_watches import found_slow
from job_api.operations.subscriptions import EndReason, Subscription
from shared.storage.transactions import Transaction, Transactions

log = structlog.get_logger(__name__)

SUBJECTS_PER_STEP_MAX = 500
"""In one statement; a thousand watched subjects are two steps."""

Subject = TypeVar("Subject", bound=Hashable)
Watch = TypeVar("Watch", bound=Subscription[Any, Any])
News = TypeVar("News")


class SubjectFeed(ABC, Generic[Subject, Watch, News]):
    """Hands news to subscriptions whose queues have room; one that has none for too long is ended.

    Attributes:
        subject_field: What logs call the subject.
    """

    subject_field: ClassVar[str]

    def __init__(
        self,
        transactions: Transactions,
        *,
        slow_after: timedelta,
        monotonic: Callable[[], float],
        wake: asyncio.Event,
    ) -> None:
        self._transactions = transactions
        self._slow_seconds = slow_after.total_seconds()
        self._monotonic = monotonic
        self._wake = wake
        self._watches: defaultdict[Subject, set[Watch]] = defaultdict(set)
        self._due: dict[Watch, None] = {}  # in the order in which they became due
        self._foremost_first = True
        self._draining = False

    @abstractmethod
    def _subject(self, subscription: Watch) -> Subject:
        """Say what is watched."""

    @abstractmethod
    async def _read(
        self, transaction: Transaction, positions: Mapping[Subject, Any]
    ) -> Mapping[Subject, News]:
        """Read what follows these positions; a subject that is not there has no news."""

    @abstractmethod
    def _hand_out(self, subscription: Watch, news: News | None) -> bool:
        """Put news into a subscription, or end it; return whether nothing is known to be held back."""

    def join(self, subscription: Watch) -> None:
        if self._draining:
            subscription.end(EndReason.DRAINING)
            return
        self._watches[self._subject(subscription)].add(subscription)
        self._look_for(subscription)

    def leave(self, subscription: Watch) -> None:
        self._due.pop(subscription, None)
        subject = self._subject(subscription)
        watches = self._watches.get(subject, set())
        watches.discard(subscription)
        if not watches:
            self._watches.pop(subject, None)

    def stir(self, subscription: Watch) -> None:
        subscription.full_since = None
        self._look_for(subscription)

    def is_watched(self) -> bool:
        """Whether hints are of any use."""
        return bool(self._watches)

    def note(self, subjects: frozenset[Subject]) -> None:
        """Hear a hint that these have changed; those that nobody watches don't matter."""
        for subject in subjects & self._watches.keys():
            self._look_for(*self._watches[subject])

    async def drain(self) -> None:
        """End every watch, and each that comes later."""
        self._draining = True
        for each in self._all():
            each.end(EndReason.DRAINING)

    async def poll(self) -> bool:
        """Look for news of everything, and end those who are too slow."""
        self._end_slow()
        self._look_for(*self._all())
        return False

    async def step(self) -> bool:
        """Read for the watches that are due, hand out, and return True if there may be more."""
        chosen = self._chosen()
        if not chosen:
            return False
        taken = [each for watches in chosen.values() for each in watches]
        for each in taken:  # before reading: a hint that comes meanwhile counts again
            del self._due[each]
        try:
            positions = {subject: watches[0].position for subject, watches in chosen.items()}
            async with self._transactions.begin() as transaction:
                news = await self._read(transaction, positions)
        except BaseException:
            self._due.update(dict.fromkeys(each for each in taken if self._is_watching(each)))
            raise
        for each in taken:
            complete = self._hand_out(each, news.get(self._subject(each)))
            if not complete and self._is_watching(each):
                self._due.setdefault(each)
        return bool(self._due)

    def _is_watching(self, subscription: Watch) -> bool:
        return subscription in self._watches.get(self._subject(subscription), ())

    def _all(self) -> list[Watch]:
        return [each for watches in self._watches.values() for each in watches]

    def _look_for(self, *subscriptions: Watch) -> None:
        self._due.update(dict.fromkeys(subscriptions))
        if subscriptions:
            self._wake.set()

    def _end_slow(self) -> None:
        now = self._monotonic()
        for each in found_slow(self._all(), now=now, slow_seconds=self._slow_seconds):
            log.info("watch.too_slow", **{self.subject_field: str(self._subject(each))})
            each.end(EndReason.SLOW)

    def _chosen(self) -> dict[Subject, list[Watch]]:
        """Choose for each subject with due watches those to read for, all at one position.

        Where watches of a subject stand apart, the foremost and the hindmost take turns, so that one that
        catches up does not hold the others back.
        """
        self._foremost_first = not self._foremost_first
        pick = max if self._foremost_first else min
        ready: dict[Subject, list[Watch]] = {}
        for each in list(self._due):
            subject = self._subject(each)
            if each.ended or not each.has_room:
                del self._due[each]  # `stir` or the poll bring it back
            elif subject in ready or len(ready) < SUBJECTS_PER_STEP_MAX:
                ready.setdefault(subject, []).append(each)
        return {subject: _at(pick(each.position for each in due), due) for subject, due in ready.items()}


def _at(position: Any, watches: Sequence[Watch]) -> list[Watch]:
    return [each for each in watches if each.position == position]
