"""Cursors into the feed of events; the same for lists and watches, whatever types they ask for."""

from __future__ import annotations

from job_api.operations import opaque
from shared.domain.errors import FieldViolation, InvalidInput
from shared.storage.transactions import Transaction

_PLACE = "events"


def seal(number: int) -> str:
    """Make the cursor that stands for every event up to this number; it is empty before the first one."""
    return opaque.seal(_PLACE, number) if number else ""


async def start(transaction: Transaction, cursor: str) -> int:
    """Return the number behind which a reader goes on; without a cursor, before the oldest that is kept.

    Raises:
        InvalidInput: The cursor is not one of this feed, or events behind it are no longer kept.
    """
    if not cursor:
        return 0
    number = _number(cursor)
    feed = await transaction.event_feed.after(number, limit=0)
    if number > feed.last:
        raise _refusal("is not a cursor of this feed")
    if number < feed.removed:
        raise outrun()
    return number


def outrun() -> InvalidInput:
    """Say that a reader came too late."""
    return _refusal("is older than the events that are kept; without a cursor the oldest ones are read")


def _number(cursor: str) -> int:
    try:
        number = opaque.unseal(_PLACE, cursor)
    except ValueError:
        raise _refusal("is not a cursor of this feed") from None
    if type(number) is not int or number < 1:
        raise _refusal("is not a cursor of this feed")
    return number


def _refusal(description: str) -> InvalidInput:
    return InvalidInput([FieldViolation("cursor", description)])
