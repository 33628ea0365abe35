"""What keeps a process from starting, said in lines for a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class Faulty(Protocol):
    """An error that a person can act on: one line for each fault, and no traceback needed.

    Rooms that may not import this one raise an exception of their own that has `faults`.
    """

    @property
    def faults(self) -> Sequence[str]: ...


class StartupFault(Exception):
    """A process can't start; every reason that is known, all of them at once."""

    def __init__(self, faults: Sequence[str] | str) -> None:
        self.faults: tuple[str, ...] = (faults,) if isinstance(faults, str) else tuple(faults)
        super().__init__("; ".join(self.faults))
