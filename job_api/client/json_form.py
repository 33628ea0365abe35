"""How views look as JSON: the contract's lowerCamelCase names, the engine's words, RFC 3339 times.

It is close to protobuf's JSON, and kinder to scripts: states without the enum's name before them, numbers
as numbers whatever their size, amounts of money as text, JSON content as JSON, and every field always there,
null where it is unset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def as_json(view: DataclassInstance) -> dict[str, Any]:
    """Render a view as a JSON object."""
    return {_camel(each.name): _value(getattr(view, each.name)) for each in fields(view)}


def _value(value: Any) -> Any:
    match value:
        case Mapping():
            return {key: _value(member) for key, member in value.items()}
        case list() | tuple():
            return [_value(member) for member in value]
        case _ if is_dataclass(value) and not isinstance(value, type):
            return as_json(value)
        case _:
            return _scalar(value)


def _scalar(value: Any) -> Any:
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case timedelta():
            return f"{value.total_seconds():.6f}".rstrip("0").rstrip(".") + "s"
        case Decimal():
            return f"{value:f}"
        case UUID():
            return str(value)
        case _:
            return value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
