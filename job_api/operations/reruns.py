"""How a job that has ended is run again: under today's definition, with all else of the old job's."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from shared.catalog.catalog import Catalog
from shared.catalog.definition import JobDefinition
from shared.domain.errors import BatonError
from shared.domain.identity import JobId, JobType, Owner
from shared.storage.reruns import Rerun


@dataclass(frozen=True, slots=True)
class Asking:
    """Who asks, and the call's trace context; empty if it came without one."""

    subject: Owner
    traceparent: str = ""


def todays_definition(
    catalog: Catalog,
    job_type: JobType,
    input_schema_versions: Collection[int],
    *,
    refused: Callable[[str], BatonError],
) -> JobDefinition:
    """Return the definition under which inputs of these versions run again; raise what `refused` makes."""
    definition = catalog.definitions.get(job_type)
    if definition is None:
        raise refused("its job type is gone")
    if any(version != definition.input_schema_version for version in input_schema_versions):
        raise refused("its job type takes another version of inputs now")
    return definition


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
