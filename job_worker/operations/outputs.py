"""Checks what handlers made before anything of it is stored."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from job_worker.operations.reports import Success
from shared.catalog import json_text, misfits
from shared.catalog.definition import JobDefinition
from shared.domain.jobs import JobError
from shared.domain.retries import PAYLOAD_TOO_LARGE, VALIDATION_OUTPUT

_MESSAGE_CHARACTERS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class ReadOutput:
    """An output that is JSON and has the hash that its executor said."""

    text: bytes
    value: Any
    canonical: bytes
    content_hash: str


def read(success: Success, *, output_bytes_max: int) -> ReadOutput | JobError:
    """Read an output and check its size and hash."""
    size = len(success.output)
    if size > output_bytes_max:
        return JobError(
            PAYLOAD_TOO_LARGE, f"the output has {size} bytes; at most {output_bytes_max} are allowed"
        )
    try:
        value = json_text.parse(success.output)
        canonical = json_text.canonical(value)
    except json_text.MalformedDocument as error:
        return invalid(f"the output {error}")
    content_hash = hashlib.sha256(canonical).hexdigest()
    if content_hash != success.output_hash:
        return invalid("the output does not have the hash that was sent with it")
    return ReadOutput(success.output, value, canonical, content_hash)


def fit(output: ReadOutput, definition: JobDefinition) -> BaseModel | JobError:
    """Read an output as its job type's model."""
    try:
        return definition.output_model.model_validate_json(output.text)
    except ValidationError as error:
        return invalid(misfits.sentence("output", error))


def kept(output: ReadOutput, definition: JobDefinition) -> bytes | None:
    """Return what is stored of an output; None where the definition keeps none."""
    if not definition.keep_output:
        return None
    if not definition.redacted_output_fields or not isinstance(output.value, dict):
        return output.canonical
    return json_text.canonical(
        {name: value for name, value in output.value.items() if name not in definition.redacted_output_fields}
    )


def pieces_fault(success: Success, texts: Sequence[str]) -> JobError | None:
    """Compare the pieces that are stored with what the result says of them."""
    if success.piece_count != len(texts):
        return invalid(f"{success.piece_count} output pieces were named, and {len(texts)} are stored")
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode())
    if success.piece_count and digest.hexdigest() != success.pieces_hash:
        return invalid("the output pieces do not have the hash that was sent with the result")
    return None


def invalid(message: str) -> JobError:
    """An output that does not fit; the next attempt is told so."""
    return JobError(VALIDATION_OUTPUT, message[:_MESSAGE_CHARACTERS_MAX])
