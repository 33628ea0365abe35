"""What admins can ask about callers; see `asks`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict
from uuid import UUID

from job_api.client import convert
from job_api.client.asks import PAGE_SIZE_MAX, Listing, listing, require_known, timestamp
from job_api.client.json_form import as_json
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import operation_pb2


class AuditFilter(TypedDict, total=False):
    """Which records: what is said must all fit.

    Attributes:
        subject: That called.
        aggregate_id: The job, batch or document that was made or changed.
        recorded_from: At or after; aware.
        recorded_to: Before; aware.
    """

    subject: str
    aggregate_id: UUID
    recorded_from: datetime | None
    recorded_to: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecordView:
    """One effect of a caller; the time is the database's, in UTC.

    Attributes:
        subject: That called.
        owner: That it acted for.
        action: What it did, for example `job.create`.
        aggregate_id: The job, batch or document that it made or changed; None if there is none.
        name: The queue or job type that it paused or resumed; else empty.
    """

    subject: str
    owner: str
    action: str
    aggregate_id: UUID | None
    name: str
    record_time: datetime
    outcome: str

    def to_json(self) -> dict[str, Any]:
        return as_json(self)


def list_audit_records(which: AuditFilter) -> Listing[AuditRecordView]:
    require_known(AuditFilter, which)
    request = pb.ListAuditRecordsRequest(
        subject=which.get("subject", ""),
        aggregate_id=str(which.get("aggregate_id", "")),
        record_time_from=timestamp(which.get("recorded_from")),
        record_time_to=timestamp(which.get("recorded_to")),
        page_size=PAGE_SIZE_MAX,
    )
    return listing("ListAuditRecords", request, "records", _view)


def _view(record: operation_pb2.AuditRecord) -> AuditRecordView:
    return AuditRecordView(
        subject=record.subject,
        owner=record.owner,
        action=record.action,
        aggregate_id=UUID(record.aggregate_id) if record.aggregate_id else None,
        name=record.name,
        record_time=convert.time(record.record_time),
        outcome=record.outcome,
    )
