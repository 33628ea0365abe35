"""Pages of lists, and the tokens that lead from one to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from uuid import UUID

from job_api.operations import opaque
from shared.domain.errors import InvalidPageToken

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Item = TypeVar("Item")
Place = TypeVar("Place")


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which page.

    Attributes:
        size: At least 1.
        token: From the page before; empty for the first one.
    """

    size: int
    token: str = ""


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """A page; the token leads to the next one, and is empty on the last.

    Attributes:
        token_behind: Makes the token of a page that ends behind one of the items already.
    """

    items: Sequence[Item]
    next_token: str
    token_behind: Callable[[Item], str]


def begin(request: PageRequest, of: Any, read: Callable[[Any], Place], start: Place) -> Place:
    """Return where a page begins.

    Args:
        of: What is listed, as a JSON value; a token of another list does not open this one.
        read: Makes the place out of the token's value; a ValueError, TypeError or OverflowError refuses it.
        start: Where the first page begins.

    Raises:
        InvalidPageToken: The token is not one that this list gave out.
    """
    if not request.token:
        return start
    try:
        return read(opaque.unseal(of, request.token))
    except (ValueError, TypeError, OverflowError):
        raise InvalidPageToken from None


def ended(items: Sequence[Item], size: int, of: Any, place: Callable[[Item], Any]) -> Page[Item]:
    """Make a page of what was read, which is one item more than its size where there is a next page."""

    def behind(item: Item) -> str:
        return opaque.seal(of, place(item))

    if len(items) <= size:
        return Page(items, "", behind)
    return Page(items[:size], behind(items[size - 1]), behind)


def ordinal(value: Any) -> int:
    """Read a place that is a number.

    Raises:
        ValueError: It is none.
    """
    if type(value) is not int or not 0 <= value <= _ORDINAL_MAX:
        raise ValueError
    return value


def text(value: Any) -> str:
    """Read a place that is a text.

    Raises:
        TypeError: It is none.
    """
    if not isinstance(value, str):
        raise TypeError
    return value


def long_ordinal(value: Any) -> int:
    """Read a place that is a number of the database's, which is text in tokens: JSON has none so large.

    Raises:
        TypeError: It is no text.
        ValueError: It is no such number.
    """
    digits = text(value)
    if not digits.isascii() or not digits.isdigit() or int(digits) > _LONG_ORDINAL_MAX:
        raise ValueError
    return int(digits)


def moment(time: datetime) -> str:
    """Write a place that is a point in time."""
    return time.astimezone(UTC).isoformat()


def time(value: Any) -> datetime:
    """Read what `moment` has written.

    Raises:
        TypeError: It is something else.
        ValueError: It is something else.
    """
    read = datetime.fromisoformat(text(value))
    if read.tzinfo is None:
        raise ValueError
    return read.astimezone(UTC)


def described(wanted: DataclassInstance) -> dict[str, Any]:
    """Write a filter as a JSON value that is the same whenever the filter is."""
    return {name: _json(value) for name, value in asdict(wanted).items()}


def _json(value: Any) -> Any:
    match value:
        case datetime():
            return value.isoformat()
        case UUID():
            return str(value)
        case frozenset():
            return sorted(value)
        case _:
            return value


_ORDINAL_MAX = 2**31 - 1
_LONG_ORDINAL_MAX = 2**63 - 1
