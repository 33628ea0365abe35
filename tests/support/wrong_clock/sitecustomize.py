"""Gives a process the wrong time of day, before anything of it is imported.

Every interpreter imports a module of this name at its start. Which process it is, is told by the readiness
file that executors have and hand on to their handler processes, and else by the command.

The event loop and gRPC keep the right time. They compare it with what C libraries ask the kernel for, which
stays right here, so a wrong one would make a machine with two clocks; and what they tell others are spans.
"""

from __future__ import annotations

import datetime as datetime_module
import os
import sys
import time as time_module
from pathlib import Path
from typing import Any

_RIGHT = ("asyncio", "grpc")
_right_time, _right_time_ns = time_module.time, time_module.time_ns
_Right = datetime_module.datetime
_NANOSECONDS = 1_000_000_000


def _offset() -> int:
    ready_file = os.environ.get("BATON_READY_FILE", "")
    name = Path(ready_file).stem if ready_file else sys.orig_argv[-1]
    offsets = dict(each.split("=") for each in os.environ.get("WRONG_CLOCKS", "").split(",") if each)
    return int(offsets.get(name, 0))


def _keeps_right() -> bool:
    """Tell whether the caller of this function's caller is one that must have the right time."""
    caller: str = sys._getframe(2).f_globals.get("__name__", "")
    return caller.partition(".")[0] in _RIGHT


def _wrong_time() -> float:
    return _right_time() + (0 if _keeps_right() else _OFFSET)


def _wrong_time_ns() -> int:
    return _right_time_ns() + (0 if _keeps_right() else _OFFSET * _NANOSECONDS)


class _Kind(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _Right)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, _Right)


class _WrongDatetime(_Right, metaclass=_Kind):
    """Makes ordinary values; only what it says of the present is wrong."""

    def __new__(cls, *arguments: Any, **named: Any) -> Any:
        return _Right(*arguments, **named)

    @classmethod
    def now(cls, tz: datetime_module.tzinfo | None = None) -> Any:
        return _Right.now(tz) + datetime_module.timedelta(seconds=_OFFSET)

    @classmethod
    def utcnow(cls) -> Any:
        return cls.now(datetime_module.UTC).replace(tzinfo=None)

    @classmethod
    def today(cls) -> Any:
        return cls.now()


_OFFSET = _offset()
if _OFFSET:
    time_module.time, time_module.time_ns = _wrong_time, _wrong_time_ns
    datetime_module.datetime = _WrongDatetime  # type: ignore[misc]
