"""Answers to reports, as they are kept with the attempt for when the same report comes again."""

from __future__ import annotations

from job_worker.operations.reports import Report, ReportAnswer, ReportOutcome
from shared.domain.leases import LeaseRef
from shared.storage.attempts import EarlierReport

ALREADY_REPORTED = "ALREADY_REPORTED"
"""Why a second, different report under one lease is refused."""

_SEPARATOR = ":"
"""No outcome and no error code holds one, so only the message may."""


def stored_answer(answer: ReportAnswer) -> str:
    """Render an answer for the attempt's record: outcome, reason and message."""
    return _SEPARATOR.join((answer.outcome, answer.reason, answer.message))


def answer_of_ended(report: Report, earlier: EarlierReport | None) -> ReportAnswer:
    """Answer a report whose lease does not stand any more."""
    if earlier is None or not earlier.report_hash:
        return ReportAnswer(report.lease, ReportOutcome.LEASE_LOST)
    if earlier.report_hash != report.content_hash:
        message = "another report has ended this attempt"
        return ReportAnswer(report.lease, ReportOutcome.REFUSED, ALREADY_REPORTED, message)
    return _read(report.lease, earlier.answer)


def _read(lease: LeaseRef, stored: str) -> ReportAnswer:
    outcome, _, rest = stored.partition(_SEPARATOR)
    reason, _, message = rest.partition(_SEPARATOR)
    return ReportAnswer(lease, ReportOutcome(outcome), reason, message)
