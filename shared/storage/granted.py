"""Reads a granted lease out of the claim's row."""

from __future__ import annotations

from typing import Any

from shared.domain.leases import Document, Lease, LeaseRef
from shared.storage.rows import error_of


def lease_of(row: Any) -> Lease:
    """Build the lease; its document only if the job has one."""
    document = None
    if row.upload_id is not None:
        document = Document(row.upload_id, row.document_bytes, row.sha256, row.media_type, row.file_name)
    return Lease(
        ref=LeaseRef(row.job_id, row.token),
        session_id=row.session_id,
        attempt=row.attempt,
        job_type=row.job_type,
        queue=row.queue,
        priority=row.priority,
        input_schema_version=row.input_schema_version,
        output_schema_version=row.output_schema_version,
        input=row.input or b"",
        input_bytes=row.input_bytes,
        document=document,
        traceparent=row.traceparent,
        last_error=error_of(row),
        run_alone=row.run_alone,
        credential_mode=row.credential_mode,
        credential_id=row.credential_id,
        prompt_version=row.prompt_version,
    )
