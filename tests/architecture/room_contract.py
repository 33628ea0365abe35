"""An import contract that is a table: each row is a room, and what its modules may import."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import grimp
from importlinter import Contract, ContractCheck, fields, output

ANY_ROOM_OF_ITS_OWN = "*"
CORE = "shared"


@dataclass(frozen=True, slots=True)
class Row:
    """What one room may import.

    Attributes:
        room: A package or module; modules below it that have a row of their own are not in this room.
        rooms: The rooms that it may import, as they are named in their own rows.
        libraries: The libraries of which it has a share, by their top-level names.
    """

    room: str
    rooms: frozenset[str]
    libraries: frozenset[str]

    @classmethod
    def parse(cls, text: str) -> Row:
        room, _, allowed = text.partition(":")
        rooms, _, libraries = allowed.partition("|")
        return cls(room.strip(), frozenset(rooms.split()), frozenset(libraries.split()))

    def allows(self, room: str) -> bool:
        if ANY_ROOM_OF_ITS_OWN in self.rooms:
            return _root(room) in {CORE, _root(self.room)}
        return room in self.rooms


@dataclass(frozen=True, slots=True)
class House:
    """The whole table; modules are named by their dotted paths, libraries by their top-level names."""

    rows: tuple[Row, ...]
    pure: frozenset[str]

    def complaints(self, graph: grimp.ImportGraph) -> Iterator[str]:
        """Yield a line for each module that stands in no room, and for each import that no row allows."""
        roots = {_root(row.room) for row in self.rows}
        for module in sorted(graph.modules):
            if _root(module) not in roots or module in roots:
                continue
            row = self.row_of(module)
            if row is None:
                yield f"{module} stands in no room"
                continue
            for imported in sorted(graph.find_modules_directly_imported_by(module)):
                if not self.allows(row, imported, roots=roots):
                    yield f"{module} imports {imported}, which the row of {row.room} does not allow"

    def row_of(self, module: str) -> Row | None:
        """Return the row with the longest name that `module` is or lies under."""
        rows = [row for row in self.rows if f"{module}.".startswith(f"{row.room}.")]
        return max(rows, key=lambda row: len(row.room), default=None)

    def allows(self, row: Row, imported: str, *, roots: set[str]) -> bool:
        if _root(imported) not in roots:
            return self.allows_library(row, _root(imported))
        there = self.row_of(imported)
        return imported in roots or there == row or (there is not None and row.allows(there.room))

    def allows_library(self, row: Row, library: str) -> bool:
        if library in sys.stdlib_module_names or library in row.libraries:
            return True
        shared_out = any(library in other.libraries for other in self.rows)
        return not shared_out and row.room not in self.pure


class RoomContract(Contract):
    """Checks direct imports only: what a room imports answers for its own imports."""

    type_name = "rooms"

    rows = fields.ListField(subfield=fields.StringField())
    pure = fields.ListField(subfield=fields.StringField())

    def check(self, graph: grimp.ImportGraph, verbose: bool) -> ContractCheck:
        rows: list[str] = self.contract_options["rows"]
        pure: list[str] = self.contract_options["pure"]
        house = House(tuple(Row.parse(row) for row in rows), frozenset(pure))
        complaints = list(house.complaints(graph))
        return ContractCheck(kept=not complaints, metadata={"complaints": complaints})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for complaint in check.metadata["complaints"]:
            output.print_error(f"- {complaint}")


def _root(module: str) -> str:
    return module.partition(".")[0]
