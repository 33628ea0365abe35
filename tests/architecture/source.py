"""The project's own Python, parsed: what the rules about its shape are checked on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDERS = ("bench", "examples", "job_api", "job_worker", "protos", "shared", "tests", "verification")
GENERATED = REPOSITORY / "shared" / "gen"


@dataclass(frozen=True, slots=True)
class Module:
    path: Path
    text: str
    tree: ast.Module

    @property
    def place(self) -> Path:
        """The path from the repository on, without its suffix."""
        return self.path.relative_to(REPOSITORY).with_suffix("")

    def __str__(self) -> str:
        return str(self.path.relative_to(REPOSITORY))

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node

    def classes(self) -> Iterator[ast.ClassDef]:
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef))


@cache
def modules() -> tuple[Module, ...]:
    """Return every module that a person wrote, in the order of their paths."""
    return tuple(_parsed(path) for path in _paths())


def _paths() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((REPOSITORY / folder).rglob("*.py")):
            if not path.is_relative_to(GENERATED):
                yield path


def _parsed(path: Path) -> Module:
    text = path.read_text()
    return Module(path, text, ast.parse(text, filename=str(path)))
