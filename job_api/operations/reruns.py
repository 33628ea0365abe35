"""How a job that has ended is run again: under today's definition, with all else of the old job's."""

from __future__ import annotations

from dataclasses import dataclass

from shared.catalog.definition import JobDefinition
from shared.domain.identity import JobId, Owner
from shared.storage.reruns import Rerun


@dataclass(frozen=True, slots=True)
class Asking:
    """Who asks, and the call's trace context; empty if it came without one."""

    subject: Owner
    traceparent: str = ""


def rerun(
    origin_job_id: JobId, *, job_id: JobId, definition: JobDefinition, priority: int, asking: Asking
) -> Rerun:
    """Plan to run a job of this definition and priority again, as the job of the new id."""
    return Rerun(
        origin_job_id=origin_job_id,
        job_id=job_id,
        created_by=asking.subject,
        queue=definition.queue,
        stream=definition.stream_key(priority).name,
        input_schema_version=definition.input_schema_version,
        output_schema_version=definition.output_schema_version,
        start_by=definition.start_by,
        traceparent=asking.traceparent,
    )
