"""What calls about all jobs of a filter have in common: bounded steps, and tokens that lead on.

A call takes some of the jobs, newest first, each step in a transaction of its own, and its token leads to the
rest. What a call has done stays done if it breaks, and asking again does the rest: a job that was changed is
no longer one of the selection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from job_api.operations import opaque, paging
from job_api.operations.job_filters import JobFilter, Position, place, position
from job_api.operations.paging import PageRequest
from shared.domain.errors import BatonError
from shared.storage.selections import Selected, Selection
from shared.storage.transactions import Transaction, Transactions

STEPS_PER_CALL_MAX = 10
"""So a call takes about a second, and ends before its caller's patience."""
ROWS_PER_STEP_MAX = 20_000
"""Jobs that one step looks at, some 50 ms; it changes those that fit."""
ROWS_COUNTED_MAX = 200_000
"""Jobs that one dry call looks at, in one statement."""

Changed = TypeVar("Changed")


@dataclass(frozen=True, slots=True)
class SelectedRequest:
    """Which jobs.

    Attributes:
        dry_run: Count only.
        token: From the call before; empty for the first one.
    """

    job_filter: JobFilter
    dry_run: bool
    token: str = ""


@dataclass(frozen=True, slots=True)
class SelectedOutcome:
    """How many jobs were changed, or would be; the token leads to the rest, and is empty if there is none."""

    count: int
    next_token: str = ""


@dataclass(frozen=True, slots=True)
class Walk:
    """A selection, from where a call begins on.

    Attributes:
        of: What is walked through, as a JSON value, so that a token opens nothing else.
    """

    selection: Selection
    of: Any
    after: Position | None

    def outcome(self, count: int, end: Position | None) -> SelectedOutcome:
        """Say how far it came; None is to the end."""
        return SelectedOutcome(count, "" if end is None else opaque.seal(self.of, place(end)))


@dataclass(frozen=True, slots=True)
class Stop:
    """What ends a walk before a job that can't be changed and may not be passed over.

    Attributes:
        behind: The last job before it in its step; None if it is the first one there.
    """

    error: BatonError
    behind: Position | None


def walk(kind: str, request: SelectedRequest, job_filter: JobFilter, selection: Selection) -> Walk:
    """Begin where the token says.

    Raises:
        InvalidPageToken: The token is malformed, or of another filter, caller or call.
    """
    of = [kind, request.dry_run, paging.described(job_filter)]
    return Walk(selection, of, paging.begin(PageRequest(1, request.token), of, position, None))


async def count(transactions: Transactions, along: Walk) -> SelectedOutcome:
    """Count, and change nothing."""
    async with transactions.begin() as transaction:
        counted = await transaction.selections.count(
            along.selection, after=along.after, rows=ROWS_COUNTED_MAX
        )
    return along.outcome(counted.jobs, counted.end)


async def change_each(
    transactions: Transactions,
    along: Walk,
    change: Callable[[Transaction, Sequence[Selected]], Awaitable[Changed]],
    tell: Callable[[Changed], Awaitable[int]],
    *,
    jobs_per_step_max: int,
    stop: Callable[[Changed], Stop | None] = lambda _: None,
) -> SelectedOutcome:
    """Change jobs in steps.

    Args:
        change: Changes locked jobs, in their transaction.
        tell: Does what follows once that is committed, and says how many jobs were changed.
        stop: Says whether a step met a job that stops the walk.

    Raises:
        BatonError: The first job that there was stops the walk; nothing was changed.
    """
    done, after = 0, along.after
    for _ in range(STEPS_PER_CALL_MAX):
        async with transactions.begin() as transaction:
            locked = await transaction.selections.lock(
                along.selection, after=after, rows=ROWS_PER_STEP_MAX, limit=jobs_per_step_max
            )
            changed = await change(transaction, locked.jobs)
        done += await tell(changed)
        stopped = stop(changed)
        if stopped is not None:
            if not done:
                raise stopped.error
            return along.outcome(done, stopped.behind or after)
        after = locked.end
        if after is None:
            break
    return along.outcome(done, after)
