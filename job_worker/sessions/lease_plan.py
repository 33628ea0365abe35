"""Decides which session gets which stream's next entries, before any entry is taken."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from job_worker.sessions.session import Session
from shared.domain.identity import QueueName, StreamName


@dataclass(frozen=True, slots=True)
class Seat:
    """A session's credit that is taken for one entry of a stream; it is used once, or returned."""

    session: Session
    queue: QueueName

    def give_up(self) -> None:
        self.session.return_credit(self.queue)


@dataclass(frozen=True, slots=True)
class WantedStream:
    """A stream that sessions can take from, and those who can, whose turn it is first."""

    name: StreamName
    queue: QueueName
    sessions: Sequence[Session]


def wanted_streams(sessions: Iterable[Session]) -> list[WantedStream]:
    """Gather the streams for which there is an open credit, the most urgent bands first."""
    able = defaultdict[tuple[int, StreamName, QueueName], list[Session]](list)
    for session in sessions:
        for stream in session.streams:
            if session.open_credits(stream.queue) > 0:
                able[stream.band, stream.name, stream.queue].append(session)
    return [
        WantedStream(name, queue, able[band, name, queue])
        for band, name, queue in sorted(able, key=lambda key: key[0])
    ]


def reserve(
    streams: Sequence[WantedStream], lengths: Mapping[StreamName, int]
) -> Mapping[StreamName, deque[Seat]]:
    """Take credits for entries that may be there, more urgent streams first, the sessions in turn.

    Args:
        streams: In the order of their bands.
        lengths: How many entries each stream has at most.

    Returns:
        For each stream as many seats as entries may be taken; streams without any are left out.
    """
    seats = {each.name: _seats(each, lengths.get(each.name, 0)) for each in streams}
    return {name: each for name, each in seats.items() if each}


def _seats(stream: WantedStream, length: int) -> deque[Seat]:
    seats = deque[Seat]()
    turn = deque(each for each in stream.sessions if each.open_credits(stream.queue) > 0)
    while turn and len(seats) < length:
        session = turn.popleft()
        session.take_credit(stream.queue)
        seats.append(Seat(session, stream.queue))
        if session.open_credits(stream.queue) > 0:
            turn.append(session)
    return seats
