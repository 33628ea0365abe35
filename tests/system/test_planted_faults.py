"""Faults that engines of this kind have had are planted in copies of the source, and the suite finds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.planting import PATCHES, Fault, named, plant, verified

SPEAKS = "speaks for nobody else"
HANGS = "a service that hangs costs no lease"
IN_TIME = "an attempt ends in time"
LEFT = "a service that wakes up grants nothing to who has left"
EXACT = "counters are exact under fire"
TOLD = "others are told after an outage"

FAULTS = (
    Fault("fence_removed", ("own results",), case=1, parts=("late result is refused",)),
    Fault("claim_read_then_write", ("one start", "legal changes"), case=11, parts=("entries twice",)),
    Fault("recorded_before_delivered", ("found again",), case=11, parts=("dispatcher killed",)),
    Fault("no_second_dispatch", ("nothing lost", "found again"), case=11, parts=("entries lost",)),
    Fault("cleanup_in_finally_only", ("nothing lost",), case=1, parts=("both ends die",)),
    Fault("cancel_not_checked", ("cancelled for good",), case=4, parts=("results as they are reported",)),
    Fault("stale_heartbeats_count", (SPEAKS,), case=1, parts=(SPEAKS,)),
    Fault("own_silence_counts", (HANGS,), case=12, parts=(HANGS,)),
    Fault("no_time_limit", (IN_TIME,), case=12, parts=(IN_TIME,)),
    Fault("claim_for_who_has_left", (LEFT,), case=12, parts=(LEFT,)),
    Fault("answered_before_durable", ("nothing lost",), case=13, parts=("answers outlive the database",)),
    Fault("batch_counted_unlocked", ("counters add up",), case=14, parts=(EXACT,)),
    Fault("event_dropped", (TOLD,), case=13, parts=(TOLD,)),
)
SEEDS = range(1, 11)
FOUND_MIN = 9
"""Of the seeds; what a fault does is a matter of chance."""


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_patch_fits_the_source(fault: Fault, tmp_path: Path) -> None:
    assert plant(fault, tmp_path).is_dir()


def test_every_patch_is_tried() -> None:
    assert {each.stem for each in PATCHES.glob("*.patch")} == {each.name for each in FAULTS}


@pytest.mark.prove
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_suite_finds_the_fault_and_names_what_it_breaks(fault: Fault, tmp_path: Path) -> None:
    copy = plant(fault, tmp_path)

    reports = [verified(copy, fault, seed=seed) for seed in SEEDS]

    found = [not each["passed"] and bool(named(each) & set(fault.breaks)) for each in reports]
    assert sum(found) >= FOUND_MIN, [named(each) for each in reports]
