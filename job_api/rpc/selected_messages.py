"""Retries, and calls about all jobs of a filter, between protobuf and the operations' words."""

from __future__ import annotations

from job_api.operations.retry_job import RetryCommand
from job_api.operations.selected_jobs import SelectedRequest
from job_api.rpc import convert
from job_api.rpc.fields import Fields
from shared.gen.baton.v1 import job_control_pb2 as pb


def retry_command(request: pb.RetryJobRequest, *, traceparent: str) -> RetryCommand:
    with Fields() as fields:
        return RetryCommand(
            fields.job_id(request.job_id),
            key=convert.idempotency_key(fields, request),
            traceparent=convert.trace_context(traceparent),
        )


def selected_request(request: pb.CancelJobsRequest | pb.RetryJobsRequest) -> SelectedRequest:
    """Read which jobs are meant; a filter that restricts nothing means a mistake more often than all jobs."""
    with Fields() as fields:
        if not request.filter.ListFields():
            fields.refuse("filter", "must have at least one field set")
        job_filter = convert.job_filter(fields, request.filter)
        return SelectedRequest(job_filter, request.dry_run, request.page_token)
