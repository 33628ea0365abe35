"""How long each may run, and how long it may ignore that it is to stop."""

from __future__ import annotations

from datetime import timedelta

from shared.catalog.definition import Domain, JobDefinition
from shared.catalog.synthetic import SyntheticInput, SyntheticOutput
from shared.domain.identity import JobType, QueueName

SECOND = timedelta(seconds=1)
GRACE = 2 * SECOND
"""Of those that are not patient; less than it takes to miss an executor with a lease time of 3 s."""
TIMEOUT = 3 * SECOND
"""Of those that are hasty."""


def _definition(name: str, *, timeout: timedelta, grace: timedelta) -> JobDefinition:
    return JobDefinition(
        job_type=JobType(name),
        label=name,
        description="For tests.",
        domain=Domain.DRILL,
        queue=QueueName("drill"),
        timeout=timeout,
        grace=grace,
        max_retries=0,
        input_model=SyntheticInput,
        output_model=SyntheticOutput,
        projector="synthetic",
    )


DEFINITIONS = (
    _definition("patient", timeout=600 * SECOND, grace=60 * SECOND),
    _definition("brisk", timeout=600 * SECOND, grace=GRACE),
    _definition("hasty", timeout=TIMEOUT, grace=GRACE),
)
