"""What a deployment's package is asked for."""

from __future__ import annotations

from shared.catalog.definition import Domain, JobDefinition
from shared.catalog.synthetic import SyntheticInput, SyntheticOutput
from shared.domain.identity import JobType, QueueName

DEFINITIONS = (
    JobDefinition(
        job_type=JobType("stubborn"),
        label="Stubborn work",
        description="Can't be cancelled once it runs.",
        domain=Domain.DRILL,
        queue=QueueName("drill"),
        input_model=SyntheticInput,
        output_model=SyntheticOutput,
        cancellable=False,
        projector="synthetic",
    ),
)
