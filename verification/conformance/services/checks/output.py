"""Inputs and outputs: what is fetched, what is streamed, and what is not taken."""

from __future__ import annotations

import json
from collections.abc import Sequence

from shared.gen.baton.v1 import execution_service_pb2 as pb
from shared.gen.baton.v1 import job_control_pb2, job_pb2
from verification.conformance.services.check import Theme
from verification.conformance.services.refusals import fields_of
from verification.conformance.services.session import Session, require_ended_as_invalid, session
from verification.conformance.services.target import NotJudged, Target
from verification.peers import executor as peers
from verification.peers.control import Refused
from verification.peers.executor import ref
from verification.unmet import require

_ACCEPTED = pb.REPORT_OUTCOME_ACCEPTED
_REFUSED = pb.REPORT_OUTCOME_REFUSED
_RETRY = pb.REPORT_OUTCOME_RETRY_SCHEDULED
_INLINE_BYTES_MAX = 64 * 1024
_FRAME_ROOM_BYTES = 64 * 1024
_TEXTS = ("Once ", "upon ", "a ", "time \u00e9")


async def an_input_is_fetched_as_it_was_sent(target: Target) -> None:
    """Any input can be fetched in chunks, as often as wanted; one over 64 KiB is not in the lease itself."""
    for work in ({"note": "small"}, {"note": "n" * 700_000}):
        sent = json.dumps(work).encode()
        job = await target.due_job(work)
        async with session(target) as it:
            lease = await it.lease_of(job.job_id)
            require(lease.input_bytes == len(sent), f"the lease says {lease.input_bytes} bytes")
            inline = b"" if len(sent) > _INLINE_BYTES_MAX else sent
            require(lease.input == inline, f"the lease has {len(lease.input)} bytes of {len(sent)}")
            for _ in range(2):
                parts = await _snapshot(target, lease)
                require(b"".join(each.input_chunk for each in parts) == sent, "another input was fetched")
                require(
                    all(each.WhichOneof("part") == "input_chunk" for each in parts), "there is a document"
                )
            await it.succeed(lease)


async def an_output_that_is_not_what_was_said_is_not_taken(target: Target) -> None:
    """An output with a wrong hash, or that is no JSON, never succeeds; the attempt failed as VALIDATION_*."""
    for change in ({"output_hash": "0" * 64}, {"output": b'{"items": 1'}):
        job = await target.due_job()
        async with session(target) as it:
            answer = await it.succeed(await it.lease_of(job.job_id), **change)
            require(answer.outcome in {_RETRY, _REFUSED}, f"with {change} the answer is {answer.outcome}")
            await _require_failed_validation(target, job.job_id)


async def an_output_that_does_not_fit_is_told_to_the_next_attempt(target: Target) -> None:
    """An output that does not fit its model is a failure, and the next attempt is told where it does not."""
    job = await target.due_job()
    async with session(target) as it:
        lease = await it.lease_of(job.job_id)
        answer = await it.succeed(lease, {"items": "many", "attempt": 1, "more": 1})
        require(answer.outcome == _RETRY, f"the answer is {answer.outcome}")
        await _require_failed_validation(target, job.job_id)
        second = await it.lease_of(job.job_id, attempt=2)
        error = second.last_error
        require(error.code.startswith("VALIDATION_"), f"it is told of {error}")
        require("items" in error.message and "more" in error.message, f"it is told {error.message!r}")
        await it.succeed(second)


async def an_output_over_its_limit_ends_the_job(target: Target) -> None:
    """An output over the lease's limit is REFUSED as PAYLOAD_TOO_LARGE, with and without a session."""
    jobs = [await target.due_job(), await target.due_job()]
    async with session(target) as it:
        first, second = [await it.lease_of(each.job_id) for each in jobs]
        limit = first.output_bytes_max
        if limit + _FRAME_ROOM_BYTES > it.executor.welcome.frame_bytes_max:
            raise NotJudged("an output over its limit fits into no frame here")
        document = {"items": 1, "attempt": 1, "padding": "x" * limit}
        answer = await it.succeed(first, document)
        require(answer.outcome == _REFUSED, f"the answer is {answer.outcome}")
        require(answer.reason == "PAYLOAD_TOO_LARGE", f"the reason is {answer.reason!r}")
        await _require_too_large_alone(target, second, document)
    for each in jobs:
        shown = await target.control.get(each.job_id)
        require(shown.state == job_pb2.JOB_STATE_FAILED, f"its state is {shown.state}")
        require(shown.error.code == "PAYLOAD_TOO_LARGE", f"its error is {shown.error}")


async def pieces_come_to_watchers_once_and_in_order(target: Target) -> None:
    """Pieces that are recorded reach watchers in order, each once, though they were sent twice."""
    job = await target.due_job()
    async with session(target) as it:
        lease = await it.lease_of(job.job_id)
        await it.executor.send(pieces=peers.pieces(lease, *_TEXTS[:2]))
        await it.executor.send(pieces=peers.pieces(lease, *_TEXTS))
        await _recorded(it, lease, len(_TEXTS))
        said = {"piece_count": len(_TEXTS), "pieces_hash": peers.hash_of(*_TEXTS)}
        answer = await it.succeed(lease, **said)
        require(answer.outcome == _ACCEPTED, f"the result gets {answer.outcome}")
    updates = await target.control.watch_to_end(job.job_id)
    told = [(each.piece.attempt, each.piece.number, each.piece.text) for each in _pieces(updates)]
    wanted = [(1, number, text) for number, text in enumerate(_TEXTS, start=1)]
    require(told == wanted, f"watchers are told {told}")
    cursor = next(each.cursor for each in updates if each.piece.number == 2)  # noqa: PLR2004
    resumed = await target.control.watch_to_end(job.job_id, cursor=cursor)
    numbers = [each.piece.number for each in _pieces(resumed)]
    require(numbers == [3, 4], f"a watcher that had two is told {numbers}")


async def pieces_beyond_a_gap_are_not_called_durable(target: Target) -> None:
    """A piece is not called durable before all that are ahead of it are, and comes in its place."""
    job = await target.due_job()
    async with session(target) as it:
        lease = await it.lease_of(job.job_id)
        first, second, third = peers.pieces(lease, "one ", "two ", "three")
        await it.executor.send(pieces=[first, third])
        await _recorded(it, lease, 1)
        await it.beat(1, lease)
        numbers = it.executor.pieces_recorded
        require(numbers == [1], f"without piece 2 there are recorded {numbers}")
        await it.executor.send(pieces=[second, third])
        await _recorded(it, lease, 3)
        said = {"piece_count": 3, "pieces_hash": peers.hash_of("one two three")}
        answer = await it.succeed(lease, **said)
        require(answer.outcome == _ACCEPTED, f"the result gets {answer.outcome}")
    told = [each.piece.number for each in _pieces(await target.control.watch_to_end(job.job_id))]
    require(told == [1, 2, 3], f"watchers are told {told}")


async def pieces_that_are_not_what_was_said_are_not_taken(target: Target) -> None:
    """A result whose pieces have another count or hash never succeeds."""
    for count, texts in ((3, ("one", "two")), (2, ("one", "other"))):
        job = await target.due_job()
        async with session(target) as it:
            lease = await it.lease_of(job.job_id)
            await it.executor.send(pieces=peers.pieces(lease, *texts))
            said = {"piece_count": count, "pieces_hash": peers.hash_of("one", "two")}
            answer = await it.succeed(lease, **said)
            require(answer.outcome in {_RETRY, _REFUSED}, f"the answer is {answer.outcome}")
            await _require_failed_validation(target, job.job_id)


async def a_new_attempt_voids_the_pieces_before_it(target: Target) -> None:
    """A watcher is told OUTPUT_RESET before another attempt's first piece, and then gets its pieces only."""
    job = await target.due_job()
    async with session(target) as it:
        first = await it.lease_of(job.job_id)
        await it.executor.send(pieces=peers.pieces(first, "old ", "pieces"))
        await _recorded(it, first, 2)
        await it.fail(first)
        second = await it.lease_of(job.job_id, attempt=2)
        await it.executor.send(pieces=peers.pieces(second, "new"))
        await _recorded(it, second, 1)
        await it.succeed(second, piece_count=1, pieces_hash=peers.hash_of("new"))
    updates = await target.control.watch_to_end(job.job_id)
    reset = job_pb2.JOB_EVENT_KIND_OUTPUT_RESET
    marks = [place for place, each in enumerate(updates) if each.event.kind == reset]
    require(len(marks) == 1, f"there are {len(marks)} reset marks")
    before = {each.piece.attempt for each in _pieces(updates[: marks[0]])}
    after = [(each.piece.attempt, each.piece.text) for each in _pieces(updates[marks[0] :])]
    require(before <= {1}, f"before the mark came pieces of attempts {before}")
    require(after == [(2, "new")], f"after the mark came {after}")
    require(updates[marks[0]].event.attempt == 2, "the mark names another attempt")  # noqa: PLR2004


async def a_piece_over_its_limit_is_refused(target: Target) -> None:
    """A piece over the limit that the welcome tells ends the session as INVALID_INPUT."""
    job = await target.due_job()
    async with session(target) as it:
        lease = await it.lease_of(job.job_id)
        text = "x" * (it.executor.welcome.piece_bytes_max + 1)
        await it.executor.send(pieces=peers.pieces(lease, text))
        await require_ended_as_invalid(it.executor, "pieces[0].text")


async def _require_too_large_alone(target: Target, lease: pb.Lease, document: object) -> None:
    request = pb.ReportResultRequest(lease=ref(lease), success=peers.success_of(lease, document))
    try:
        answer = (await target.execute("ReportResult", request)).answer
    except Refused as error:
        require(error.reason == "PAYLOAD_TOO_LARGE", f"ReportResult is refused with {error}")
        require(fields_of(error), "BadRequest names no field")
    else:
        require(answer.reason == "PAYLOAD_TOO_LARGE", f"ReportResult gets {answer.outcome} {answer.reason}")


async def _require_failed_validation(target: Target, job_id: str) -> None:
    first = (await target.control.attempts(job_id))[0]
    require(first.outcome == job_pb2.ATTEMPT_OUTCOME_FAILED, f"the attempt ended as {first.outcome}")
    require(first.error.code.startswith("VALIDATION_"), f"the attempt's error is {first.error}")


async def _snapshot(target: Target, lease: pb.Lease) -> Sequence[pb.GetSnapshotResponse]:
    request = pb.GetSnapshotRequest(lease=ref(lease))
    return await target.collected(
        "GetSnapshot", target.execution.GetSnapshot(request, metadata=target.metadata)
    )


async def _recorded(it: Session, lease: pb.Lease, number: int) -> None:
    await it.executor.until(
        lambda: any(
            each.lease.token == lease.token and each.number == number
            for frame in it.executor.frames
            for each in frame.pieces_recorded
        )
    )


def _pieces(
    updates: Sequence[job_control_pb2.WatchJobResponse],
) -> Sequence[job_control_pb2.WatchJobResponse]:
    return [each for each in updates if each.HasField("piece")]


THEME = Theme(
    "input and output",
    (
        an_input_is_fetched_as_it_was_sent,
        an_output_that_is_not_what_was_said_is_not_taken,
        an_output_that_does_not_fit_is_told_to_the_next_attempt,
        an_output_over_its_limit_ends_the_job,
        pieces_come_to_watchers_once_and_in_order,
        pieces_beyond_a_gap_are_not_called_durable,
        pieces_that_are_not_what_was_said_are_not_taken,
        a_new_attempt_voids_the_pieces_before_it,
        a_piece_over_its_limit_is_refused,
    ),
    executing=True,
)
