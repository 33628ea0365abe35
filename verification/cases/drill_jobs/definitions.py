"""What it takes and gives."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from pydantic import BaseModel, ConfigDict

from shared.catalog.definition import Domain, JobDefinition
from shared.domain.identity import JobType, QueueName
from shared.domain.retries import Backoff


class Nothing(BaseModel):
    """No input."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Projected(BaseModel):
    """The output: what its projector does once it has written its row."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    then: Literal["return", "raise", "break", "linger"] = "return"


DEFINITIONS = [
    JobDefinition(
        job_type=JobType("projection_drill"),
        label="Projection drill",
        description="Has a projector that fails half-way when it is told to.",
        domain=Domain.DRILL,
        queue=QueueName("drill"),
        backoff=Backoff(timedelta(seconds=0.2)),
        input_model=Nothing,
        output_model=Projected,
        projector="projection_drill",
    )
]
