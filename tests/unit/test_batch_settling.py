"""How a batch settles, by its counters alone."""

from __future__ import annotations

import itertools

import pytest

from shared.domain.batches import (
    BATCH_TRANSITIONS,
    OPEN_STATES,
    BatchChange,
    BatchCounters,
    BatchState,
    settled_by,
)

SETTLINGS = {
    BatchChange.SUCCEEDED,
    BatchChange.PARTIALLY_FAILED,
    BatchChange.FAILED,
    BatchChange.CANCELLED,
}


@pytest.mark.parametrize("cancel_requested", [False, True])
@pytest.mark.parametrize("open_items", [(1, 0), (0, 1), (2, 3)])
def test_a_batch_with_open_items_does_not_settle(open_items: tuple[int, int], cancel_requested: bool) -> None:
    assert settled_by(BatchCounters(*open_items, 1, 1, 1), cancel_requested=cancel_requested) is None


@pytest.mark.parametrize(
    ("succeeded", "failed", "skipped", "change"),
    [
        (3, 0, 0, BatchChange.SUCCEEDED),
        (1, 0, 2, BatchChange.SUCCEEDED),
        (1, 2, 0, BatchChange.PARTIALLY_FAILED),
        (1, 1, 1, BatchChange.PARTIALLY_FAILED),
        (0, 3, 0, BatchChange.FAILED),
        (0, 1, 2, BatchChange.FAILED),
        (0, 0, 3, BatchChange.CANCELLED),
    ],
)
def test_what_succeeded_and_failed_decides(
    succeeded: int, failed: int, skipped: int, change: BatchChange
) -> None:
    assert settled_by(BatchCounters(0, 0, succeeded, failed, skipped), cancel_requested=False) is change


def test_a_cancelled_batch_settles_as_cancelled_whatever_succeeded() -> None:
    for ended in itertools.product((0, 1), repeat=3):
        assert settled_by(BatchCounters(0, 0, *ended), cancel_requested=True) is BatchChange.CANCELLED


def test_a_batch_settles_from_its_open_states_and_into_none_of_them() -> None:
    assert {BATCH_TRANSITIONS[each].sources for each in SETTLINGS} == {OPEN_STATES}
    assert not {BATCH_TRANSITIONS[each].target for each in SETTLINGS} & OPEN_STATES


def test_every_state_but_the_first_is_reached_by_a_change() -> None:
    assert {each.target for each in BATCH_TRANSITIONS.values()} == set(BatchState)
