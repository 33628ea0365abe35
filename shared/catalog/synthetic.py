"""The job type `synthetic`: work made to order, for drills and benchmarks."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from shared.catalog.definition import Domain, JobDefinition
from shared.domain.identity import JobType, QueueName


class SyntheticInput(BaseModel):
    """What the work is to be like. The default does nothing, as fast as it can."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    items: int = Field(default=1, ge=0, le=100_000)
    """Steps of the work; progress is reported after each."""
    duration_seconds: float = Field(default=0, ge=0, le=3_600)
    """Of the whole work, spread evenly over the items."""
    work: Literal["sleeping", "busy", "blocking"] = "sleeping"
    """Sleeping gives way to others; busy computes without pause; blocking holds the interpreter lock."""
    report_progress: bool = True
    fail_attempts: list[int] = Field(default=[], max_length=100)
    """Attempts that fail, by number from 1 on."""
    fail_code: str = Field(default="PROVIDER_UNAVAILABLE", pattern=r"^[A-Z][A-Z0-9_]{2,63}$")
    """The error code that they fail with."""
    fail_after_items: int = Field(default=0, ge=0)
    """They fail after so many items or pieces."""
    exit_attempts: list[int] = Field(default=[], max_length=100)
    """Attempts that end their process, by number from 1 on."""
    ignore_cancel: bool = False
    """Go on when asked to stop."""
    output_bytes: int = Field(default=0, ge=0, le=64 * 1024 * 1024)
    """Size of the padding in the output."""
    pieces: int = Field(default=0, ge=0, le=100_000)
    """Pieces of streamed output."""
    piece_characters: int = Field(default=20, ge=1, le=65_536)
    ledger: str = Field(default="", max_length=1_000)
    """A file on the executor's machine to which each phase is appended; for drills."""
    note: str = Field(default="", max_length=1_000_000)
    """Carried along unread; makes inputs as large as wanted."""


class SyntheticOutput(BaseModel):
    """What was done."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    items: int
    attempt: int
    padding: str = ""


DEFINITION = JobDefinition(
    job_type=JobType("synthetic"),
    label="Synthetic work",
    description="Does made-to-order work for drills and benchmarks.",
    domain=Domain.DRILL,
    queue=QueueName("drill"),
    timeout=timedelta(seconds=600),
    input_model=SyntheticInput,
    output_model=SyntheticOutput,
    projector="synthetic",
)
