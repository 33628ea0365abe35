"""Says in words where a document does not fit its model: the same to callers, operators and next attempts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

_NAMED_MAX = 20
"""So many are named in a sentence; the next attempt is told them, and more would not help it."""
_PREFIXES = ("Value error, ", "Assertion failed, ")
"""What pydantic puts before a model's own words."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """One place that does not fit.

    Attributes:
        place: As callers write it, `items[2].name`; empty for the whole document.
        what: Why, without the value.
    """

    place: str
    what: str

    def within(self, top: str) -> str:
        """Return the place inside something larger: `input.items[2].name`."""
        return top + ("" if self.place.startswith("[") or not self.place else ".") + self.place


def misfits(error: ValidationError) -> Sequence[Misfit]:
    """Return every place that does not fit, in the model's order; at least one."""
    details = error.errors(include_url=False, include_input=False, include_context=False)
    return [Misfit(_place(each["loc"]), _words(each["msg"])) for each in details]


def sentence(document: str, error: ValidationError) -> str:
    """Say in one line what does not fit; `document` is `input` or `output`."""
    found = misfits(error)
    named = [f"{each.place or 'the whole'}: {each.what}" for each in found[:_NAMED_MAX]]
    more = len(found) - len(named)
    return f"the {document} does not fit: {'; '.join([*named, *([f'and {more} more'] if more else [])])}"


def _place(location: tuple[int | str, ...]) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return "".join(parts).removeprefix(".")


def _words(message: str) -> str:
    for prefix in _PREFIXES:
        message = message.removeprefix(prefix)
    return message
