"""Lists queues, with how they are doing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from job_api.operations import paging
from job_api.operations.paging import Page, PageRequest
from shared.catalog.catalog import Catalog
from shared.domain.errors import PlatformUnavailable
from shared.domain.identity import JobType, QueueName, StreamName
from shared.domain.pauses import Pausable, Pause, PauseKind
from shared.domain.queues import BAND_STARTS, StreamKey, queue_of
from shared.storage.queue_figures import WaitingStream
from shared.storage.transactions import Transaction, Transactions
from shared.streams.lease_streams import LeaseStreams


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """How a queue is doing.

    Attributes:
        waiting: Jobs without a lease, due or not.
        more_waiting: Whether there are more than were counted.
        running: Jobs with one.
        oldest_due_age: How long the oldest due job has waited; None if none is due.
        executors: Those that announce one of its job types and were heard of lately.
        credits: Leases that they can take now, at least; None if nobody tells.
        pause: None while the queue is not paused.
        job_type_pauses: Of its job types, where they are paused each for itself.
    """

    queue: QueueName
    group: str
    waiting: int
    more_waiting: bool
    running: int
    oldest_due_age: timedelta | None
    finished_last_minute: int
    executors: int
    credits: int | None
    pause: Pause | None
    job_type_pauses: Mapping[JobType, Pause]


@dataclass(frozen=True, slots=True)
class _Figures:
    """What was counted; of queues that are not named there is nothing."""

    waiting: Mapping[QueueName, Sequence[WaitingStream]]
    running: Mapping[QueueName, int]
    finished: Mapping[QueueName, int]
    executors: Mapping[QueueName, int]
    pauses: Mapping[Pausable, Pause]

    @property
    def streams(self) -> Iterable[StreamName]:
        return (each.stream for streams in self.waiting.values() for each in streams)


class ListQueues:
    """What is in Postgres is counted; what executors could take is what their services tell in Redis."""

    def __init__(self, transactions: Transactions, streams: LeaseStreams, catalog: Catalog) -> None:
        self._transactions = transactions
        self._streams = streams
        self._catalog = catalog

    async def __call__(self, page: PageRequest) -> Page[QueueStatus]:
        """Return a page of queues by name: those of the catalog, and others in which jobs wait or run.

        Raises:
            InvalidPageToken: The token belongs to another list.
        """
        of = ["queues"]
        after = paging.begin(page, of, paging.text, "")
        async with self._transactions.begin() as transaction:
            figures = await self._figures(transaction)
        names = {*self._catalog.queues, *figures.waiting, *figures.running}
        shown = sorted(each for each in names if each > after)[: page.size + 1]
        credits = await self._credits(shown, figures)
        statuses = [self._status(each, figures, credits.get(each)) for each in shown]
        return paging.ended(statuses, page.size, of, lambda status: status.queue)

    async def _figures(self, transaction: Transaction) -> _Figures:
        waiting: dict[QueueName, list[WaitingStream]] = {}
        for each in await transaction.queue_figures.waiting():
            waiting.setdefault(queue_of(each.stream), []).append(each)
        types = {each.job_type: each.queue for each in self._catalog.definitions.values()}
        return _Figures(
            waiting,
            await transaction.queue_figures.running(),
            await transaction.queue_figures.finished_last_minute(),
            await transaction.queue_figures.executors(types),
            await transaction.pauses.all(),
        )

    def _status(self, name: QueueName, figures: _Figures, credits: int | None) -> QueueStatus:
        known = self._catalog.queues.get(name)
        streams = figures.waiting.get(name, ())
        ages = [each.oldest_due_age for each in streams if each.oldest_due_age is not None]
        return QueueStatus(
            queue=name,
            group=known.group if known else "",
            waiting=sum(each.waiting for each in streams),
            more_waiting=any(each.more for each in streams),
            running=figures.running.get(name, 0),
            oldest_due_age=max(ages, default=None),
            finished_last_minute=figures.finished.get(name, 0),
            executors=figures.executors.get(name, 0),
            credits=credits,
            pause=figures.pauses.get(Pausable(PauseKind.QUEUE, name)),
            job_type_pauses={
                each.job_type: pause
                for each in self._catalog.definitions.values()
                if each.queue == name
                and (pause := figures.pauses.get(Pausable(PauseKind.JOB_TYPE, each.job_type)))
            },
        )

    async def _credits(self, names: Iterable[QueueName], figures: _Figures) -> Mapping[QueueName, int]:
        """Return what could be taken from the stream of each queue from which most could.

        An executor's credits are a queue's, and told for every stream that it serves: a sum would count them
        many times.
        """
        wanted = set(names)
        streams = {*self._known_streams(), *figures.streams}
        asked = [each for each in sorted(streams) if queue_of(each) in wanted]
        try:
            depths = await self._streams.depths(asked)
        except PlatformUnavailable:
            return {}
        credits = dict[QueueName, int]()
        for stream, depth in depths.items():
            if depth.demand is not None:
                queue = queue_of(stream)
                credits[queue] = max(depth.demand, credits.get(queue, 0))
        return credits

    def _known_streams(self) -> Iterable[StreamName]:
        for each in self._catalog.definitions.values():
            for band in range(len(BAND_STARTS)):
                yield StreamKey(
                    each.queue,
                    each.job_type,
                    each.input_schema_version,
                    each.output_schema_version,
                    band,
                ).name
