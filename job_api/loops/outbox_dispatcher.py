"""Tells Redis which attempts wait, so that executors' sessions find them.

Who is authoritative: the dispatch row in Postgres. It exists exactly while its job waits for an executor, and
the claim that removes it is what grants a lease. A stream entry only says "look here".

What is promised: every due row is in its stream sooner or later, at least once, as long as there is room. A
stream is filled to a mark that follows what executors could take now. So Redis holds the head of each queue
and Postgres the rest, a priority still means something in a long backlog, and owners take turns at the head:
within an owner the more urgent goes first, then the oldest due. What is paused is not delivered, and of a job
type with limits no more than they leave.

What happens when each part fails:

- The dispatcher dies, or the commit fails, between append and commit: the rows are pending as before and are
  appended again. The claim refuses the entry that comes second.
- Redis is away, or full: the transaction rolls back, and the rows wait. Nothing is counted against them.
- A stream's key holds something else, or no entry can be made of a row: that row is tried three times and is
  dead then. It stays until an operator sends it again or its job ends. The other streams go on.
- Redis has lost a stream: that is seen here, or by the sweep, and its rows are pending again at once.
- Postgres is away: the step fails and is tried again; the streams run dry meanwhile.
- Postgres crashes and has forgotten a commit, as none here waits for the disk: its rows are pending again,
  and are appended again.
- The process freezes while it holds rows: the database ends the transaction, and another dispatcher goes on.

Dispatchers never wait for each other or for a claim: rows that somebody holds are skipped.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

import structlog

from job_api.loops import dispatch_room
from job_api.loops.delivery import DELIVERY_TIME_MAX, delivering
from job_api.loops.dispatch_room import DispatchRoom
from shared.domain.identity import JobId, JobType, Owner, StreamName
from shared.domain.leases import TypeLimits
from shared.storage.delivery_failures import DeliveryFailure
from shared.storage.dispatch_statements import OWNERS_PER_STREAM_MAX
from shared.storage.dispatches import Dispatch, LimitedRoom
from shared.storage.transactions import Transaction, Transactions
from shared.streams.lease_streams import Depth, LeaseStreams, Refusal

log = structlog.get_logger(__name__)

MARK_MIN = 8
"""A stream is filled at least so far, so that the first executor that comes finds work there."""

MARK_MAX = 4_096
"""No stream is filled beyond this, whatever executors say: some 500 KB of Redis."""

ROWS_PER_STEP_MAX = 1_000
"""Rows that one transaction locks and appends, all streams together: tens of milliseconds of locks."""

PUT_BACK_MAX = 5_000
"""Rows of lost streams that one transaction takes back; above `MARK_MAX`, so that one pass is enough."""


_NO_LIMITS: Mapping[JobType, TypeLimits] = MappingProxyType({})


class OutboxDispatcher:
    """Delivers at least once: a crash between append and commit appends the batch again."""

    def __init__(
        self,
        transactions: Transactions,
        streams: LeaseStreams,
        limits: Mapping[JobType, TypeLimits] = _NO_LIMITS,
    ) -> None:
        """Begin; `limits` are those of the job types that have any."""
        self._transactions = transactions
        self._streams = streams
        self._limits = DispatchRoom(limits)
        self._served: dict[StreamName, Owner] = {}

    async def step(self) -> bool:
        """Fill every stream that has room; return True if there may be more to deliver at once.

        Raises:
            PlatformUnavailable: Postgres or Redis is away. What was appended is appended again later.
        """
        async with delivering(self._transactions) as transaction:
            return await self._fill(transaction)

    async def _fill(self, transaction: Transaction) -> bool:
        owners = await transaction.dispatches.waiting_owners(self._served, self._limits.at_once_per_owner)
        if not owners:
            self._served.clear()
            return False
        depths, limited = await self._depths(transaction, owners)
        await transaction.repeatable(ended_after_silence=DELIVERY_TIME_MAX)
        taken_back = await _take_back(transaction, sorted(_missing(depths)))
        room = _room(depths)
        rows = await transaction.dispatches.lock_due(owners, room, limited)
        filled = dispatch_room.filled(room, limited, rows)
        self._served = _last_served(self._served, owners, room.keys(), filled, rows)
        if not rows:
            return taken_back > 0
        appended = await self._streams.append(rows)
        # Made anew after the look above: what was in them is pending again, but not the rows of this batch,
        # which are not delivered yet.
        taken_back += await _take_back(transaction, sorted(appended.made_anew - _missing(depths)))
        delivered = [each for each in rows if each.job_id not in appended.refused]
        await transaction.dispatches.mark_delivered([each.outbox_id for each in delivered])
        await _record_failures(transaction, rows, appended.refused)
        usable = {stream: each for stream, each in owners.items() if depths[stream].usable}
        return taken_back > 0 or _more_may_wait(usable, dispatch_room.filled(room, {}, delivered))

    async def _depths(
        self, transaction: Transaction, owners: Mapping[StreamName, Sequence[Owner]]
    ) -> tuple[Mapping[StreamName, Depth], Mapping[StreamName, LimitedRoom]]:
        """Return how full the streams with pending rows are, and what limits leave of them."""
        concerned = self._limits.concerned(owners)
        if not concerned:
            return await self._streams.depths(owners), {}
        usage = await transaction.lease_limits.usage(concerned)
        depths = await self._streams.depths(owners.keys() | usage.delivered.keys())
        return {stream: depths[stream] for stream in owners}, self._limits.left(owners, depths, usage)


async def _record_failures(
    transaction: Transaction, rows: Sequence[Dispatch], refused: Mapping[JobId, Refusal]
) -> None:
    failed = {each.outbox_id: each for each in rows if each.job_id in refused}
    failures = [
        DeliveryFailure(outbox_id, refused[each.job_id].code, refused[each.job_id].message)
        for outbox_id, each in failed.items()
    ]
    for outbox_id in await transaction.delivery_failures.record(failures):
        row = failed[outbox_id]
        log.error(
            "dispatch.dead", job_id=str(row.job_id), stream=row.stream, error_code=refused[row.job_id].code
        )


async def _take_back(transaction: Transaction, lost: Sequence[StreamName]) -> int:
    """Make the rows of streams that Redis has lost pending again, and count them; a new stream has none.

    They may be other owners' than those that this pass looks at, so they wait for the next one.
    """
    count = await transaction.dispatches.put_back(lost, limit=PUT_BACK_MAX)
    if count:
        log.warning("lease_stream.lost", streams=list(lost), rows=count)
    return count


def _missing(depths: Mapping[StreamName, Depth]) -> frozenset[StreamName]:
    return frozenset(stream for stream, depth in depths.items() if depth.length is None)


def _room(depths: Mapping[StreamName, Depth]) -> Mapping[StreamName, int]:
    """How many rows each stream may get now; a step's limit is shared in proportion, at least one each.

    An unusable stream is tried with one row, so that few are dead before somebody notices.
    """
    wanted = {
        stream: _mark(depth) - (depth.length or 0) if depth.usable else 1 for stream, depth in depths.items()
    }
    wanted = {stream: room for stream, room in wanted.items() if room > 0}
    total = sum(wanted.values())
    if total <= ROWS_PER_STEP_MAX:
        return wanted
    return {stream: max(1, room * ROWS_PER_STEP_MAX // total) for stream, room in wanted.items()}


def _mark(depth: Depth) -> int:
    return min(MARK_MAX, max(MARK_MIN, depth.demand or 0))


def _last_served(
    served: Mapping[StreamName, Owner],
    owners: Mapping[StreamName, Sequence[Owner]],
    with_room: Collection[StreamName],
    filled: Collection[StreamName],
    rows: Sequence[Dispatch],
) -> dict[StreamName, Owner]:
    """Whose turn was last in each stream that has pending rows.

    That of the last row if the room was used up; else all that were looked at have had theirs. Nobody's where
    there was no room: it stays as it was.
    """
    last = {stream: served[stream] for stream in owners if stream in served}
    last |= {stream: owners[stream][-1] for stream in with_room if stream not in filled}
    return last | {row.stream: row.owner for row in rows if row.stream in filled}


def _more_may_wait(owners: Mapping[StreamName, Sequence[Owner]], filled: Collection[StreamName]) -> bool:
    unseen = any(len(looked_at) == OWNERS_PER_STREAM_MAX for looked_at in owners.values())
    return unseen or bool(filled)
