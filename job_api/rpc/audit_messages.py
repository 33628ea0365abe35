"""What callers did: requests read, records rendered."""

from __future__ import annotations

from job_api.operations.list_audit_records import AuditFilter, AuditRecord
from job_api.rpc.fields import Fields
from job_api.rpc.messages import timestamp
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import operation_pb2


def audit_filter(fields: Fields, request: pb.ListAuditRecordsRequest) -> AuditFilter:
    """Read a filter; fields that are not set restrict nothing."""
    aggregate = request.aggregate_id
    return AuditFilter(
        subject=fields.owner("subject", request.subject),
        aggregate_id=fields.uuid("aggregate_id", aggregate) if aggregate else None,
        recorded_from=fields.time(request, "record_time_from"),
        recorded_to=fields.time(request, "record_time_to"),
    )


def audit_record(record: AuditRecord) -> operation_pb2.AuditRecord:
    return operation_pb2.AuditRecord(
        subject=record.subject,
        owner=record.owner,
        action=record.action,
        aggregate_id="" if record.aggregate_id is None else str(record.aggregate_id),
        name=record.name,
        record_time=timestamp(record.record_time),
        outcome=record.outcome,
    )
