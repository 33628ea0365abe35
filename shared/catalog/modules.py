"""Imports modules that a deployment wrote: whatever they raise is a fault for a person, not a bug of ours."""

from __future__ import annotations

import importlib
from traceback import extract_tb
from types import ModuleType


def imported(name: str, faults: list[str], *, optional: bool = False) -> ModuleType | None:
    """Import a module; None if it can't be, with a sentence added to `faults`.

    Args:
        optional: That there is no such module is no fault.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if not (optional and error.name == name):
            faults.append(_sentence(name, error))
    except Exception as error:  # noqa: BLE001 - code of a user's
        faults.append(_sentence(name, error))
    return None


def _sentence(name: str, error: Exception) -> str:
    kind = "" if isinstance(error, ImportError) else f"{type(error).__name__}: "
    reason = " ".join(f"{_place(error)}{kind}{_text(error)}".split())
    return f"the module {name!r} can't be imported: {reason}"


def _place(error: Exception) -> str:
    """Where it happened: the line that could not be read, or else the last one outside every function."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}: "
    lines = [each for each in extract_tb(error.__traceback__) if each.name == "<module>"]
    return f"{lines[-1].filename}:{lines[-1].lineno}: " if lines else ""


def _text(error: Exception) -> str:
    return error.msg if isinstance(error, SyntaxError) else str(error)
