"""What is true of every frame that an executor sent, over all that was tried."""

from __future__ import annotations

from collections.abc import Sequence

from shared.gen.baton.v1 import execution_service_pb2 as pb
from verification.conformance.executors.bench import Bench
from verification.conformance.executors.check import Check
from verification.peers.service import ScriptedSession
from verification.unmet import require

_FRAME_BYTES_MAX = 4 << 20
_MESSAGE_CHARACTERS_MAX = 200
_PROGRESS_MAX = 100


async def sends_frames_as_they_must_be(bench: Bench) -> None:
    """In all frames of the run: one hello, rising numbers, leases that were granted, sizes that fit."""
    frames = [(session, frame) for session in bench.sessions for frame in session.frames]
    require(frames, "no frame came in the whole run")
    for _, frame in frames:
        require(not frame.HasField("hello"), "a hello came in a frame that was not the first")
        require(frame.ByteSize() <= _FRAME_BYTES_MAX, f"a frame has {frame.ByteSize()} bytes")
        for beat in frame.heartbeats:
            _require_progress(beat)
        for named in _named(frame):
            lease = bench.granted.get(named.job_id)
            known = lease is not None and lease.token == named.token
            require(known, f"a lease was named that was never granted: {named.job_id} {named.token}")
    for session in bench.sessions:
        _require_rising(session)


def _require_progress(beat: pb.Heartbeat) -> None:
    require(beat.progress <= _PROGRESS_MAX, f"a progress of {beat.progress} per cent")
    length = len(beat.progress_message)
    require(length <= _MESSAGE_CHARACTERS_MAX, f"a progress message of {length} characters; 200 are allowed")


def _named(frame: pb.OpenSessionRequest) -> Sequence[pb.LeaseRef]:
    heartbeats = [each.lease for each in frame.heartbeats]
    return heartbeats + [each.lease for each in frame.reports] + [each.lease for each in frame.pieces]


def _require_rising(session: ScriptedSession) -> None:
    numbers = [frame.heartbeat_number for frame in session.frames if frame.heartbeats]
    require(
        numbers == sorted(set(numbers)), f"heartbeat numbers must rise from frame to frame: {numbers[:20]}"
    )


CHECKS = (Check(sends_frames_as_they_must_be),)
