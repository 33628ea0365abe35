"""What the job type is; loaded by both services and by executors."""

from __future__ import annotations

from datetime import timedelta

from pydantic import BaseModel, ConfigDict, Field

from shared.catalog.definition import Domain, JobDefinition
from shared.domain.identity import JobType, QueueName


class WordCountInput(BaseModel):
    """A text, and how many of its words are wanted."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str = Field(max_length=500_000, repr=False)
    top: int = Field(default=10, ge=1, le=100)
    """So many of the most frequent words."""


class WordCount(BaseModel):
    """How often a word stands in the text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    word: str
    count: int = Field(ge=1)


class WordCountOutput(BaseModel):
    """What was counted."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    words: int = Field(ge=0)
    """All words of the text."""
    top: list[WordCount]
    """The most frequent first; equally frequent ones by the alphabet."""


DEFINITIONS = (
    JobDefinition(
        job_type=JobType("word_count"),
        label="Word count",
        description="Finds the most frequent words of a text.",
        domain=Domain.ANALYSIS,
        queue=QueueName("ai-background"),
        timeout=timedelta(seconds=30),
        input_model=WordCountInput,
        output_model=WordCountOutput,
        projector="word_count",
    ),
)
