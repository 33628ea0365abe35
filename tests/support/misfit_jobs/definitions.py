"""Job types whose handlers do not fit."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from shared.catalog.definition import Domain, JobDefinition
from shared.domain.identity import JobType, QueueName


class Wanted(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Other(BaseModel):
    model_config = ConfigDict(extra="forbid")


DEFINITIONS = [
    JobDefinition(
        job_type=JobType(name),
        label=name,
        description="For tests.",
        domain=Domain.DRILL,
        queue=QueueName("drill"),
        input_model=Wanted,
        output_model=Wanted,
        projector="none",
    )
    for name in ("without_handler", "wrong_input", "wrong_output")
]
