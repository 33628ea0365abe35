"""What the limits of job types leave of their streams' room, counted before streams are filled.

So an owner at its limit holds up no other owner, and a type at its limit no other type. The claim decides all
the same: two dispatchers may count at the same moment, and what is too much then is refused there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from shared.domain.identity import JobType, Owner, StreamName
from shared.domain.leases import TypeLimits
from shared.domain.queues import band_of, job_type_of
from shared.storage.dispatches import Dispatch, LimitedRoom
from shared.storage.lease_limits import LimitUsage
from shared.streams.lease_streams import Depth


class DispatchRoom:
    """Counts for job types with limits; streams of others are named nowhere."""

    def __init__(self, limits: Mapping[JobType, TypeLimits]) -> None:
        self._limits = limits
        self.at_once_per_owner: Mapping[JobType, int] = {
            name: each.at_once_per_owner
            for name, each in limits.items()
            if each.at_once_per_owner is not None
        }

    def concerned(self, streams: Iterable[StreamName]) -> Sequence[TypeLimits]:
        """Return the limits of the streams' types, each once."""
        names = sorted({job_type_of(each) for each in streams} & self._limits.keys())
        return [self._limits[each] for each in names]

    def left(
        self,
        owners: Mapping[StreamName, Sequence[Owner]],
        depths: Mapping[StreamName, Depth],
        usage: LimitUsage,
    ) -> Mapping[StreamName, LimitedRoom]:
        """Return what is left for each stream whose type has limits.

        Args:
            owners: Whose turns come next, by stream.
            depths: Of those streams and of all that hold delivered attempts.
        """
        return {
            stream: _left(self._limits[job_type_of(stream)], stream, waiting, depths, usage)
            for stream, waiting in owners.items()
            if job_type_of(stream) in self._limits
        }


def filled(
    room: Mapping[StreamName, int], limited: Mapping[StreamName, LimitedRoom], rows: Sequence[Dispatch]
) -> frozenset[StreamName]:
    """Return the streams that got as many rows as they had room for, or as their type's limits left."""
    of_stream = Counter(each.stream for each in rows)
    of_type = Counter(each.job_type for each in rows)
    return frozenset(
        stream
        for stream, most in room.items()
        if of_stream[stream] >= most or _used_up(limited.get(stream), of_type)
    )


def _used_up(left: LimitedRoom | None, of_type: Counter[JobType]) -> bool:
    return left is not None and left.rows is not None and of_type[left.job_type] >= left.rows


def _left(
    limits: TypeLimits,
    stream: StreamName,
    waiting: Sequence[Owner],
    depths: Mapping[StreamName, Depth],
    usage: LimitUsage,
) -> LimitedRoom:
    leased = usage.leased.get(limits.job_type, {})
    ahead = Counter[Owner]()
    for other, delivered in usage.delivered.items():
        if job_type_of(other) == limits.job_type and _goes_before(other, stream, depths):
            ahead.update(delivered)
    rows = [
        most - taken
        for most, taken in (
            (limits.at_once, sum(leased.values()) + ahead.total()),
            (usage.tokens.get(limits.job_type), ahead.total()),
        )
        if most is not None
    ]
    per_owner = limits.at_once_per_owner
    return LimitedRoom(
        limits.job_type,
        max(0, min(rows)) if rows else None,
        {}
        if per_owner is None
        else {each: max(0, per_owner - leased.get(each, 0) - ahead[each]) for each in waiting},
    )


def _goes_before(other: StreamName, stream: StreamName, depths: Mapping[StreamName, Depth]) -> bool:
    """Whether what is in the other stream is claimed before anything that is delivered now.

    It is not where it is less urgent, nor where no executor can take it now, as those of its versions are
    busy or gone, while one can take this stream's: it would hold that one up for nothing.
    """
    if other == stream:
        return True
    only_this_is_served = _served(depths[stream]) > _served(depths[other])
    return band_of(other) <= band_of(stream) and not only_this_is_served


def _served(depth: Depth) -> int:
    """How far executors serve a stream: not at all, once they are less busy, or now."""
    return 0 if depth.demand is None else min(depth.demand, 1) + 1
