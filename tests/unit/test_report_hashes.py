from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from job_worker.operations.reports import End, Failure, GiveBack, GiveBackReason, Report, Stopped, Success
from shared.domain.identity import JobId, LeaseToken
from shared.domain.jobs import JobError
from shared.domain.leases import LeaseRef

ERROR = JobError("PROVIDER_TIMEOUT", "late", "inside")
ENDS: list[End] = [
    Success(b"{}", "ab"),
    Success(b"{ }", "ab"),
    Success(b"{}", "abc"),
    Success(b"{}", "ab", piece_count=1),
    Success(b"{}", "ab", piece_count=1, pieces_hash="cd"),
    Failure(ERROR),
    Failure(JobError("PROVIDER_TIMEOUT", "late")),
    Failure(ERROR, retry_after=timedelta(seconds=1)),
    Failure(ERROR, permanent=True),
    GiveBack(GiveBackReason.DRAINING),
    GiveBack(GiveBackReason.PROCESS_DIED),
    GiveBack(GiveBackReason.PROCESS_DIED, alone=True),
    Stopped(),
    Stopped(killed=True),
]


def _hash(end: End) -> str:
    return Report(LeaseRef(JobId(UUID(int=1)), LeaseToken("1.token")), end).content_hash


def test_reports_that_say_anything_else_have_another_hash_and_the_same_ones_have_the_same() -> None:
    hashes = [_hash(each) for each in ENDS]
    assert len(set(hashes)) == len(ENDS)
    assert [_hash(each) for each in ENDS] == hashes
