"""Output that is streamed in pieces."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from shared.gen.baton.v1 import execution_service_pb2 as pb
from verification.conformance.executors.bench import Bench
from verification.conformance.executors.check import Check, Feature
from verification.peers.executor import ref
from verification.peers.service import ScriptedSession
from verification.unmet import require

_PIECES = 300
_STORED = 2
_PIECE_BYTES_MAX = 64 * 1024


async def numbers_its_pieces(bench: Bench) -> None:
    """Pieces are numbered from 1 on without gaps, and the result names their count and their hash."""
    session = await bench.session()
    lease = await bench.grant(session, accepted=False, pieces=_PIECES)
    success = await bench.success(session, lease, seconds=20)
    sent = _pieces_of(session, lease)
    numbers = [each.number for each in sent]
    require(numbers == list(range(1, _PIECES + 1)), f"the numbers of {_PIECES} pieces are {numbers[:20]} …")
    largest = max(len(each.text.encode()) for each in sent)
    require(largest <= _PIECE_BYTES_MAX, f"a piece has {largest} bytes")
    _require_sum(success, sent)


async def sends_pieces_again_until_they_are_recorded(bench: Bench) -> None:
    """Pieces that were not recorded when the stream broke are sent again, the same ones, in order."""
    session = await bench.session()
    session.recording_pieces = False
    session.answering_reports = False  # a result commits when all its pieces are stored, and not before
    lease = await bench.grant(session, accepted=False, pieces=_PIECES)
    await bench.until(session, lambda: len(_pieces_of(session, lease)) > _STORED, "pieces did not come")
    await session.send(pieces_recorded=[pb.PiecesRecorded(lease=ref(lease), number=_STORED)])
    later = await bench.broken(session)
    await bench.welcome(later, kept=later.hello.held)
    success = await bench.success(later, lease, seconds=20)
    first, again = _pieces_of(session, lease), _pieces_of(later, lease)
    require(again, "no piece was sent again")
    numbers = [each.number for each in again]
    require(numbers[0] <= _STORED + 1, f"the first piece after the break is {numbers[0]}, not {_STORED + 1}")
    gapless = numbers == list(range(numbers[0], _PIECES + 1))
    require(gapless, f"after the break {len(numbers)} pieces came, {numbers[0]} to {numbers[-1]}, with gaps")
    known = {each.number: each.text for each in first}
    changed = [each.number for each in again if known.get(each.number, each.text) != each.text]
    require(not changed, f"{len(changed)} pieces had another text the second time")
    _require_sum(success, [*first[: numbers[0] - 1], *again])


def _pieces_of(session: ScriptedSession, lease: pb.Lease) -> Sequence[pb.OutputPiece]:
    return [each for each in session.pieces if each.lease == ref(lease)]


def _require_sum(success: pb.Success, sent: Sequence[pb.OutputPiece]) -> None:
    require(
        success.piece_count == len(sent),
        f"{len(sent)} pieces were sent; the result names {success.piece_count}",
    )
    right = hashlib.sha256("".join(each.text for each in sent).encode()).hexdigest()
    require(success.pieces_hash == right, f"the hash of the pieces is {right}, not {success.pieces_hash!r}")


CHECKS = (
    Check(numbers_its_pieces, needs=(Feature.PIECES,)),
    Check(sends_pieces_again_until_they_are_recorded, needs=(Feature.PIECES,)),
)
