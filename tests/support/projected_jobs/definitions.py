"""What they take and give."""

from __future__ import annotations

from datetime import timedelta

from pydantic import BaseModel, ConfigDict

from shared.catalog.definition import Domain, JobDefinition
from shared.domain.identity import JobType, QueueName
from shared.domain.retries import Backoff


class Nothing(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Projected(BaseModel):
    """What the projector is to do after it has written its row."""

    model_config = ConfigDict(extra="forbid")

    do: str = "write"
    secret: str = ""


def _definition(name: str, **fields: object) -> JobDefinition:
    return JobDefinition(
        job_type=JobType(name),
        label=name,
        description="For tests.",
        domain=Domain.DRILL,
        queue=QueueName("drill"),
        backoff=Backoff(timedelta(seconds=60)),
        input_model=Nothing,
        output_model=Projected,
        projector="projected",
        **fields,  # type: ignore[arg-type]
    )


DEFINITIONS = [
    _definition("projected"),
    _definition("redacted", redacted_output_fields=frozenset({"secret"})),
    _definition("unkept", keep_output=False),
]
