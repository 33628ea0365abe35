"""docs/states.md tells what the domain does: its tables are read and compared."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from shared.domain.attempts import AttemptEnd, AttemptOutcome, Standing, decide
from shared.domain.batches import BATCH_TRANSITIONS, OPEN_STATES, BatchState
from shared.domain.events import JobEventKind
from shared.domain.jobs import TERMINAL_STATES, TRANSITIONS, JobState
from shared.domain.retries import Backoff, RetryClass, RetryPolicy, retry_class

PAGE = Path(__file__).resolve().parents[2] / "docs" / "states.md"

FRESH = Standing(
    failures=0, internal_failures=0, losses=0, give_backs=0, age=timedelta(0), cancel_requested=False
)
POLICY = RetryPolicy(max_retries=2, backoff=Backoff(base=timedelta(seconds=1)))
RETRIED = {
    "up to `max_retries`": RetryClass.RETRY,
    "once": RetryClass.ONCE,
    "as the job type says": RetryClass.TIMEOUT,
    "never": RetryClass.NEVER,
}


def table(heading: str) -> list[list[str]]:
    """Return the rows of the table under a heading, without its head and code marks."""
    _, _, section = PAGE.read_text().partition(f"\n## {heading}\n")
    lines = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def words(cell: str) -> set[str]:
    return {word.strip(" `") for word in cell.split(",")}


def word(cell: str) -> str:
    return cell.strip("`")


def test_the_page_lists_every_state_and_which_are_terminal() -> None:
    rows = table("States of a job")

    assert [word(state) for state, *_ in rows] == list(JobState)
    assert {word(state) for state, terminal, _ in rows if terminal == "yes"} == TERMINAL_STATES


def test_the_page_lists_every_change_with_its_sources_and_target() -> None:
    told = {
        word(change): (words(sources), word(to)) for change, sources, to, _ in table("Changes of the state")
    }

    assert told == {change: (set(each.sources), each.target) for change, each in TRANSITIONS.items()}


def test_the_page_lists_every_state_of_a_batch_and_which_have_open_items() -> None:
    rows = table("States of a batch")

    assert [word(state) for state, *_ in rows] == list(BatchState)
    assert {word(state) for state, is_open, _ in rows if is_open == "yes"} == OPEN_STATES


def test_the_page_lists_every_change_of_a_batch_with_its_sources_and_target() -> None:
    told = {
        word(change): (words(sources), word(to)) for change, sources, to, _ in table("Changes of a batch")
    }

    assert told == {change: (set(each.sources), each.target) for change, each in BATCH_TRANSITIONS.items()}


def test_the_diagram_draws_every_change_and_no_other() -> None:
    drawn = {
        (source.strip(), target.partition(":")[0].strip(), target.partition(":")[2].split()[0])
        for source, arrow, target in (line.partition("-->") for line in PAGE.read_text().splitlines())
        if arrow and "[*]" not in source + target
    }

    assert drawn == {(s, each.target, change) for change, each in TRANSITIONS.items() for s in each.sources}


def test_the_page_lists_every_event() -> None:
    rows = table("Events of a job")

    assert [word(event) for event, *_ in rows] == list(JobEventKind)
    assert {word(state) for _, state, _ in rows} == set(JobState)


def test_the_page_says_what_every_end_of_an_attempt_counts_as() -> None:
    told = {word(outcome): counts for outcome, counts, _ in table("Ends of an attempt")}

    assert list(told) == list(AttemptOutcome)
    for outcome in set(AttemptOutcome) - {AttemptOutcome.SUCCEEDED}:
        after = decide(AttemptEnd(outcome), FRESH, POLICY, uniform=0.5).standing
        counted = {"failure": after.failures, "loss": after.losses, "give-back": after.give_backs}
        assert [name for name, count in counted.items() if count] == [
            name for name in (told[outcome],) if name != "nothing"
        ]


@pytest.mark.parametrize(("code", "retried", "example"), table("Error codes"))
def test_the_page_says_how_an_error_code_is_retried(code: str, retried: str, example: str) -> None:
    assert retry_class(word(example)) is RETRIED[retried]
    if code != "anything else":
        assert word(example).startswith(word(code).removesuffix("*"))
