"""The state table as SQL: every guard and every target state in a statement is made from it here."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from shared.domain.jobs import RETRYABLE_STATES, TERMINAL_STATES, TRANSITIONS, JobChange

_STATE = "j.state"
"""Every statement with a guard calls the job's row `j`."""


def listed(states: Iterable[StrEnum]) -> str:
    return ", ".join(f"'{state}'" for state in sorted(states))


def allowed(change: JobChange) -> str:
    """Render the condition that a job's state allows `change`."""
    return f"{_STATE} in ({listed(TRANSITIONS[change].sources)})"


def target(change: JobChange) -> str:
    """Render the state that `change` leads to."""
    return f"'{TRANSITIONS[change].target}'"


def allowed_by(change_column: str) -> str:
    """Render the condition that a job's state allows the change that a column names; null changes nothing."""
    cases = " ".join(f"when '{change}' then {allowed(change)}" for change in JobChange)
    return f"case {change_column} {cases} else {terminal()} is false end"


def target_by(change_column: str) -> str:
    """Render the state that the change in a column leads to; null stays where it is."""
    cases = " ".join(f"when '{change}' then {target(change)}" for change in JobChange)
    return f"case {change_column} {cases} else {_STATE} end"


def terminal() -> str:
    """Render the condition that a state is terminal."""
    return f"{_STATE} in ({listed(TERMINAL_STATES)})"


def retryable() -> str:
    """Render the condition that a job may be run again, as far as its state goes."""
    return f"{_STATE} in ({listed(RETRYABLE_STATES)})"
