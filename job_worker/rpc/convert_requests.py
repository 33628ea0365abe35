"""From what executors send to the engine's values, field by field."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import timedelta
from uuid import UUID

from google.protobuf.duration_pb2 import Duration

from job_worker.operations.open_session import Capability, Hello
from job_worker.operations.reports import (
    End,
    Failure,
    GiveBack,
    GiveBackReason,
    Report,
    ReportAnswer,
    ReportOutcome,
    Stopped,
    Success,
)
from job_worker.operations.store_pieces import OutputPiece
from job_worker.rpc.limits import ExecutionLimits
from job_worker.sessions.frames import ExecutorFrame
from shared.catalog.definition import JOB_TYPE_PATTERN
from shared.domain.errors import FieldViolation, InvalidInput
from shared.domain.identity import IncarnationId, JobId, JobType, LeaseToken, QueueName
from shared.domain.jobs import JobError
from shared.domain.leases import Heartbeat, LeaseRef, token_epoch
from shared.gen.baton.v1 import execution_service_pb2 as pb

NAME_CHARACTERS_MAX = 100
TOKEN_CHARACTERS_MAX = 64
CREDITS_MAX = 10_000
MESSAGE_CHARACTERS_MAX = 1_000
INTERNAL_CHARACTERS_MAX = 10_000
HELD_MAX = 20_000
"""More leases than any executor holds."""
VERSION_PAIRS_MAX = 1_000
"""Of an executor's capabilities together; the service looks into some streams for each pair."""
PROGRESS_MAX = 100
NUMBER_MAX = 2**31 - 1
"""Of pieces; what the database counts with."""

_ERROR_CODE = re.compile(r"[A-Z][A-Z0-9_]{2,63}")
_HASH = re.compile(r"[0-9a-f]{64}")

_REASONS = {
    pb.GIVE_BACK_REASON_DRAINING: GiveBackReason.DRAINING,
    pb.GIVE_BACK_REASON_REFUSED: GiveBackReason.REFUSED,
    pb.GIVE_BACK_REASON_PROCESS_DIED: GiveBackReason.PROCESS_DIED,
    pb.GIVE_BACK_REASON_NEIGHBOUR_KILLED: GiveBackReason.NEIGHBOUR_KILLED,
    pb.GIVE_BACK_REASON_NOT_STARTED: GiveBackReason.NOT_STARTED,
}


def hello(request: pb.OpenSessionRequest) -> Hello:
    """Read the first frame.

    Raises:
        InvalidInput: It is no hello, or not only one, or a field is outside its range.
    """
    if not request.HasField("hello"):
        raise _invalid("hello", "the first frame must be a hello")
    message = request.hello
    if len(message.held) > HELD_MAX:
        raise _invalid("hello.held", f"at most {HELD_MAX} leases")
    return Hello(
        executor_name=_text("hello.executor_name", message.executor_name, NAME_CHARACTERS_MAX),
        incarnation_id=IncarnationId(_uuid("hello.incarnation_id", message.incarnation_id)),
        runtime=_text("hello.runtime", message.runtime, NAME_CHARACTERS_MAX, may_be_empty=True),
        capabilities=_capabilities(message.capabilities),
        held=[lease_ref(f"hello.held[{place}]", each) for place, each in enumerate(message.held)],
    )


def executor_frame(request: pb.OpenSessionRequest, limits: ExecutionLimits) -> ExecutorFrame:
    """Read any frame.

    A report that can be read but never accepted is refused by itself, so that it is not sent for ever; any
    other malformed field ends the session.

    Raises:
        InvalidInput: A field is outside its range.
    """
    reports, refused = _reports(request.reports)
    return ExecutorFrame(
        credits=[_credit(f"credits[{place}]", each) for place, each in enumerate(request.credits)],
        heartbeats=[
            _heartbeat(f"heartbeats[{place}]", each, limits) for place, each in enumerate(request.heartbeats)
        ],
        heartbeat_number=request.heartbeat_number,
        pieces=[_piece(f"pieces[{place}]", each, limits) for place, each in enumerate(request.pieces)],
        reports=reports,
        refused=refused,
        cancels_seen=[
            lease_ref(f"cancels_seen[{place}]", each) for place, each in enumerate(request.cancels_seen)
        ],
        goodbye=request.HasField("goodbye"),
    )


def later_frame(request: pb.OpenSessionRequest, limits: ExecutionLimits) -> ExecutorFrame:
    """Read any frame but the first.

    Raises:
        InvalidInput: It has a hello, or a field is outside its range.
    """
    if request.HasField("hello"):
        raise _invalid("hello", "only the first frame may have one")
    return executor_frame(request, limits)


def result_report(request: pb.ReportResultRequest) -> Report:
    """Read a result that comes without a session."""
    return Report(lease_ref("lease", request.lease), _success("success", request.success))


def failure_report(request: pb.ReportFailureRequest) -> Report:
    """Read a failure that comes without a session."""
    return Report(lease_ref("lease", request.lease), _failure("failure", request.failure))


def lease_ref(field: str, message: pb.LeaseRef) -> LeaseRef:
    """Read a lease's name.

    Raises:
        InvalidInput: It names no lease that ever was.
    """
    token = LeaseToken(message.token)
    if len(token) > TOKEN_CHARACTERS_MAX or "\0" in token or token_epoch(token) is None:
        raise _invalid(f"{field}.token", "is no lease token")
    return LeaseRef(JobId(_uuid(f"{field}.job_id", message.job_id)), token)


def _capabilities(messages: Sequence[pb.Capability]) -> Sequence[Capability]:
    capabilities = [_capability(f"hello.capabilities[{place}]", each) for place, each in enumerate(messages)]
    if not capabilities:
        raise _invalid("hello.capabilities", "at least one is needed")
    pairs = sum(len(each.input_schema_versions) * len(each.output_schema_versions) for each in capabilities)
    if pairs > VERSION_PAIRS_MAX:
        raise _invalid("hello.capabilities", f"at most {VERSION_PAIRS_MAX} pairs of versions in all")
    return capabilities


def _capability(field: str, message: pb.Capability) -> Capability:
    if not JOB_TYPE_PATTERN.fullmatch(message.job_type):
        raise _invalid(f"{field}.job_type", f"must match ^{JOB_TYPE_PATTERN.pattern}$")
    return Capability(
        JobType(message.job_type),
        _versions(f"{field}.input_schema_versions", message.input_schema_versions),
        _versions(f"{field}.output_schema_versions", message.output_schema_versions),
    )


def _versions(field: str, versions: Iterable[int]) -> frozenset[int]:
    given = frozenset(versions)
    if not given or min(given) < 1:
        raise _invalid(field, "at least one is needed, and each is at least 1")
    return given


def _credit(field: str, message: pb.Credit) -> tuple[QueueName, int]:
    if not 1 <= message.count <= CREDITS_MAX:
        raise _invalid(f"{field}.count", f"must be 1 to {CREDITS_MAX}")
    return QueueName(_text(f"{field}.queue", message.queue, NAME_CHARACTERS_MAX)), message.count


def _heartbeat(field: str, message: pb.Heartbeat, limits: ExecutionLimits) -> Heartbeat:
    progress = message.progress if message.HasField("progress") else None
    if progress is not None and progress > PROGRESS_MAX:
        raise _invalid(f"{field}.progress", "must be 0 to 100")
    said = None
    if message.HasField("progress_message"):
        characters_max = limits.progress_message_characters_max
        if len(message.progress_message) > characters_max:
            raise _invalid(f"{field}.progress_message", f"at most {characters_max} characters")
        said = _storable(message.progress_message)
    return Heartbeat(lease_ref(f"{field}.lease", message.lease), progress, said)


def _piece(field: str, message: pb.OutputPiece, limits: ExecutionLimits) -> OutputPiece:
    if not 1 <= message.number <= NUMBER_MAX:
        raise _invalid(f"{field}.number", "must be at least 1")
    if len(message.text.encode()) > limits.piece_bytes_max:
        raise _invalid(f"{field}.text", f"at most {limits.piece_bytes_max} bytes")
    if "\0" in message.text:
        raise _invalid(f"{field}.text", "must not hold a NUL character")
    return OutputPiece(lease_ref(f"{field}.lease", message.lease), message.number, message.text)


def _reports(messages: Iterable[pb.Report]) -> tuple[list[Report], list[ReportAnswer]]:
    reports, refused = list[Report](), list[ReportAnswer]()
    for place, message in enumerate(messages):
        lease = lease_ref(f"reports[{place}].lease", message.lease)
        try:
            reports.append(Report(lease, _end(f"reports[{place}]", message)))
        except InvalidInput as error:
            refused.append(ReportAnswer(lease, ReportOutcome.REFUSED, error.reason, error.message))
    return reports, refused


def _end(field: str, message: pb.Report) -> End:
    match message.WhichOneof("end"):
        case "success":
            return _success(f"{field}.success", message.success)
        case "failure":
            return _failure(f"{field}.failure", message.failure)
        case "give_back":
            if message.give_back.reason not in _REASONS:
                raise _invalid(f"{field}.give_back.reason", "is required")
            return GiveBack(_REASONS[message.give_back.reason], message.give_back.alone)
        case "stopped":
            return Stopped(message.stopped.killed)
        case _:
            raise _invalid(f"{field}.end", "is required")


def _success(field: str, message: pb.Success) -> Success:
    if not _HASH.fullmatch(message.output_hash):
        raise _invalid(f"{field}.output_hash", "must be a SHA-256 in hex")
    if message.piece_count > NUMBER_MAX:
        raise _invalid(f"{field}.piece_count", f"at most {NUMBER_MAX}")
    if message.piece_count and not _HASH.fullmatch(message.pieces_hash):
        raise _invalid(f"{field}.pieces_hash", "must be a SHA-256 in hex where there are pieces")
    pieces_hash = message.pieces_hash if message.piece_count else ""
    return Success(message.output, message.output_hash, message.piece_count, pieces_hash)


def _failure(field: str, message: pb.Failure) -> Failure:
    if not _ERROR_CODE.fullmatch(message.code):
        raise _invalid(f"{field}.code", f"must match ^{_ERROR_CODE.pattern}$")
    if not message.message or len(message.message) > MESSAGE_CHARACTERS_MAX:
        raise _invalid(f"{field}.message", f"must have 1 to {MESSAGE_CHARACTERS_MAX} characters")
    if len(message.internal_message) > INTERNAL_CHARACTERS_MAX:
        raise _invalid(f"{field}.internal_message", f"at most {INTERNAL_CHARACTERS_MAX} characters")
    return Failure(
        JobError(message.code, _storable(message.message), _storable(message.internal_message)),
        _span(f"{field}.retry_after", message.retry_after) if message.HasField("retry_after") else None,
        message.permanent,
    )


def _span(field: str, message: Duration) -> timedelta:
    try:
        span = message.ToTimedelta()
    except (ValueError, OverflowError):
        raise _invalid(field, "is no duration") from None
    if span < timedelta(0):
        raise _invalid(field, "must not be negative")
    return span


def _text(field: str, text: str, characters_max: int, *, may_be_empty: bool = False) -> str:
    if len(text) > characters_max or "\0" in text or not (text or may_be_empty):
        raise _invalid(
            field, f"must have {0 if may_be_empty else 1} to {characters_max} characters, and no NUL"
        )
    return text


def _storable(text: str) -> str:
    """Replace the one character that Postgres can't keep: a message is not worth a lease."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def _uuid(field: str, text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise _invalid(field, "is no UUID") from None


def _invalid(field: str, description: str) -> InvalidInput:
    return InvalidInput([FieldViolation(field, description)])
