"""What a shell is offered for values: what is known without asking a service.

A shell that completes shows no errors, so what can't be known is not offered.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shared.catalog.catalog import Catalog

ADVANCES = ("exported", "stored")
"""What `baton batch advance` says was done with a selection."""
_JOB_MODULES = "BATON_JOB_MODULES"


def job_states(incomplete: str) -> list[str]:
    from job_api.client import JobState

    return _in_their_case(JobState, incomplete)


def batch_states(incomplete: str) -> list[str]:
    from job_api.client import BatchState

    return _in_their_case(BatchState, incomplete)


def open_states(incomplete: str) -> list[str]:
    from job_api.client import TERMINAL_STATES, JobState

    return _in_their_case((each for each in JobState if each not in TERMINAL_STATES), incomplete)


def advances(incomplete: str) -> list[str]:
    return [each for each in ADVANCES if each.startswith(incomplete)]


def outbox_states(incomplete: str) -> list[str]:
    from job_api.client import OutboxState

    return _in_their_case(OutboxState, incomplete)


def job_types(incomplete: str) -> list[str]:
    return [each for each in sorted(_catalog().definitions) if each.startswith(incomplete)]


def queues(incomplete: str) -> list[str]:
    return [each for each in _catalog().queues if each.startswith(incomplete)]


def _in_their_case(words: Iterable[str], incomplete: str) -> list[str]:
    """Words are understood in whatever case, so they are offered in the one in which they were begun."""
    as_begun = str.lower if incomplete.islower() else str.upper if incomplete.isupper() else str
    return [each for each in map(as_begun, words) if each.startswith(incomplete)]


def _catalog() -> Catalog:
    """Load what this deployment has, or what ships if that is at fault."""
    from shared.catalog import catalog

    modules = [each.strip() for each in os.environ.get(_JOB_MODULES, "").split(",")]
    try:
        return catalog.load([each for each in modules if each])
    except Exception:  # noqa: BLE001 - the modules are the deployment's own
        return catalog.load()
