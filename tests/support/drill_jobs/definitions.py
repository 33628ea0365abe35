"""What they take and give."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from shared.catalog.definition import Domain, JobDefinition
from shared.domain.identity import JobType, QueueName


class Drill(BaseModel):
    """What the handler is to do."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    do: str = "answer"
    file: str = ""


class Answer(BaseModel):
    """What it did."""

    model_config = ConfigDict(extra="forbid")

    text: str
    number: int = 0


def _definition(name: str) -> JobDefinition:
    return JobDefinition(
        job_type=JobType(name),
        label=name,
        description="For tests.",
        domain=Domain.DRILL,
        queue=QueueName("drill"),
        input_model=Drill,
        output_model=Answer,
        projector="none",
    )


DEFINITIONS = [_definition("async_drill"), _definition("plain_drill")]
