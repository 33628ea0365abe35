"""What they take and give."""

from __future__ import annotations

from datetime import timedelta

from pydantic import BaseModel, ConfigDict

from shared.catalog.definition import Domain, JobDefinition
from shared.domain.identity import JobType, QueueName
from shared.domain.retries import Backoff


class Errand(BaseModel):
    """What is to be done with the secret."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    secret: str
    do: str = "answer"


class Told(BaseModel):
    """The secret, and what the projector is to do with it."""

    model_config = ConfigDict(extra="forbid")

    secret: str
    do: str
    number: int = 0


DEFINITIONS = [
    JobDefinition(
        job_type=JobType("errand"),
        label="Errand",
        description="For tests.",
        domain=Domain.DRILL,
        queue=QueueName("drill"),
        max_retries=1,
        backoff=Backoff(timedelta(seconds=0.1)),
        input_model=Errand,
        output_model=Told,
        projector="errand",
    )
]
