"""A wish for a batch, and the check of it against the catalog: all that needs no database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from job_api.operations.job_request import (
    VIOLATIONS_MAX,
    CheckedJob,
    CreateJobCommand,
    JobRequests,
    Overrides,
)
from shared.catalog import json_text
from shared.domain.errors import FieldViolation, InvalidInput, PayloadTooLarge
from shared.domain.identity import JobType, Owner
from shared.domain.jobs import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateBatchCommand:
    """One batch as it was asked for; single fields are in their ranges.

    Attributes:
        inputs: JSON texts as they were sent, one an item; at least one.
        owner: None where it is the caller.
        traceparent: The call's trace context; empty if it came without one.
    """

    job_type: str
    inputs: Sequence[bytes]
    key: str | None = None
    title: str = ""
    target: Target | None = None
    overrides: Overrides = field(default_factory=Overrides)
    labels: Mapping[str, str] = field(default_factory=dict)
    owner: Owner | None = None
    traceparent: str = ""


@dataclass(frozen=True, slots=True)
class CheckedBatch:
    """A wish that fits the catalog.

    Attributes:
        items: By number, at least one.
        fingerprint: SHA-256 over owner and content as sent; empty where there is no key.
    """

    command: CreateBatchCommand
    owner: Owner
    items: Sequence[CheckedJob]
    fingerprint: bytes

    @property
    def job_type(self) -> JobType:
        return self.items[0].definition.job_type


def check_batch(requests: JobRequests, command: CreateBatchCommand, owner: Owner) -> CheckedBatch:
    """Check everything that the catalog knows about; a field of the item with index 17 is `inputs[17].…`.

    Raises:
        UnknownJobType: No definition has that name.
        PayloadTooLarge: An input is over its limit.
        InvalidInput: Inputs are no JSON or do not fit, or an override is not allowed.
    """
    items, violations = list[CheckedJob](), list[FieldViolation]()
    for index, item in enumerate(_items(command)):
        try:
            items.append(requests.check(item, owner))
        except InvalidInput as error:
            found = [at_item(index, each) for each in error.violations]
            violations += [each for each in found if each not in violations]
        except PayloadTooLarge as error:
            raise PayloadTooLarge(f"inputs[{index}]", error.limit_bytes, error.actual_bytes) from None
        if len(violations) >= VIOLATIONS_MAX:
            break
    if violations:
        raise InvalidInput(violations[:VIOLATIONS_MAX])
    return CheckedBatch(command, owner, items, b"" if command.key is None else _fingerprint(command, owner))


def _items(command: CreateBatchCommand) -> Iterator[CreateJobCommand]:
    for text in command.inputs:
        yield CreateJobCommand(
            job_type=command.job_type,
            input=text,
            target=command.target,
            overrides=command.overrides,
            labels=command.labels,
            traceparent=command.traceparent,
        )


def at_item(index: int, violation: FieldViolation) -> FieldViolation:
    """Name a field of the batch's request in the place of an item's; what all items share stays as it is."""
    name, inside = violation.field, violation.field.removeprefix("input")
    if name == "input" or inside[:1] in (".", "["):
        name = f"inputs[{index}]{inside}"
    return FieldViolation(name, violation.description)


def _fingerprint(command: CreateBatchCommand, owner: Owner) -> bytes:
    """Hash what was sent, before any default, as for jobs; no job's content looks like it."""
    body = {
        "batch_owner": owner,
        "job_type": command.job_type,
        "inputs": [json_text.parse(each) for each in command.inputs],
        "title": command.title,
        "target": command.target and [command.target.type, command.target.id],
        "overrides": command.overrides.sent(),
        "labels": dict(command.labels),
    }
    try:
        return json_text.digest(body)
    except json_text.MalformedDocument as error:
        raise InvalidInput([FieldViolation("inputs", str(error))]) from None
