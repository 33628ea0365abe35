"""Checks of single fields; what is wrong with a request is told all at once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from google.protobuf.message import Message

from job_api.operations.paging import PageRequest
from shared.domain.errors import FieldViolation, InvalidInput
from shared.domain.identity import BatchId, JobId, Owner

PAGE_SIZE_DEFAULT = 50
PAGE_SIZE_MAX = 1_000
OWNER_CHARACTERS_MAX = 200
NAME_CHARACTERS_MAX = 64
"""Of a job type or queue; none is longer."""
SEARCHED_CHARACTERS_MIN, SEARCHED_CHARACTERS_MAX = 3, 100
"""Text is looked up by three characters at a time."""
LABEL_KEY_CHARACTERS_MAX = 63
LABEL_VALUE_CHARACTERS_MAX = 200

_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_NOTHING = UUID(int=0)


class Fields:
    """Reads fields and notes those that are out of range; a value that was read then means nothing.

    Usable as a context manager: leaving it raises InvalidInput if anything was noted.
    """

    def __init__(self) -> None:
        self._violations: list[FieldViolation] = []

    def __enter__(self) -> Fields:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is None and self._violations:
            raise InvalidInput(self._violations)

    def refuse(self, field: str, description: str) -> None:
        self._violations.append(FieldViolation(field, description))

    def uuid(self, field: str, value: str) -> UUID:
        if not _UUID.fullmatch(value):
            self.refuse(field, "is not a UUID")
            return _NOTHING
        return UUID(value)

    def job_id(self, value: str) -> JobId:
        return JobId(self.uuid("job_id", value))

    def batch_id(self, field: str, value: str) -> BatchId:
        return BatchId(self.uuid(field, value))

    def text(self, field: str, value: str, *, least: int = 0, most: int) -> str:
        """Check the number of characters; the database can't store NUL."""
        if not least <= len(value) <= most:
            self.refuse(field, f"must have {least} to {most} characters")
        elif "\0" in value:
            self.refuse(field, "holds a NUL character")
        return value

    def searched(self, field: str, value: str) -> str | None:
        """Check a text that is looked for; None where there is none."""
        if value:
            self.text(field, value, least=SEARCHED_CHARACTERS_MIN, most=SEARCHED_CHARACTERS_MAX)
        return value or None

    def owner(self, field: str, value: str) -> Owner | None:
        """None where no owner is named."""
        self.text(field, value, most=OWNER_CHARACTERS_MAX)
        if not value.isprintable():
            self.refuse(field, "holds a character that can't be printed")
        return Owner(value) if value else None

    def time(self, message: Message, field: str, *, top: str = "") -> datetime | None:
        """None where the field is unset."""
        if not message.HasField(field):
            return None
        try:
            moment: datetime = getattr(message, field).ToDatetime(tzinfo=UTC)
        except (ValueError, OverflowError):
            self.refuse(top + field, "is not a point in time from year 1 to 9999")
            return None
        return moment

    def labels(self, field: str, labels: Mapping[str, str], *, most: int) -> dict[str, str]:
        if len(labels) > most:
            self.refuse(field, f"has more than {most} entries")
            return {}
        for key, value in labels.items():
            self.text(f"{field} (a key)", key, least=1, most=LABEL_KEY_CHARACTERS_MAX)
            self.text(f"{field} (a value)", value, most=LABEL_VALUE_CHARACTERS_MAX)
        return dict(labels)

    def page(self, request: Any) -> PageRequest:
        """Read `page_size` and `page_token`."""
        return PageRequest(self.page_size(request), request.page_token)

    def page_size(self, request: Any) -> int:
        if not 0 <= request.page_size <= PAGE_SIZE_MAX:
            self.refuse("page_size", f"must be 1 to {PAGE_SIZE_MAX}, or 0 for {PAGE_SIZE_DEFAULT}")
        return request.page_size or PAGE_SIZE_DEFAULT
