"""Watches, secrets, memory and order are judged; an invariant without facts is not."""

from __future__ import annotations

from tests.support.evidence import (
    a_job,
    evidence,
    holds,
    is_broken,
    judgement,
    time,
    told,
    told_event,
)
from verification.evidence.evidence import Evidence
from verification.evidence.history import History, Told
from verification.evidence.samples import Backlog, Sample, Samples, Search, Wait
from verification.evidence.tables import JobRows
from verification.invariants.catalog import INVARIANTS


def test_an_invariant_without_facts_is_not_judged() -> None:
    nothing = evidence(JobRows())
    assert {judgement(each.name, nothing).facts for each in INVARIANTS} == {0}


def test_names_are_told_apart() -> None:
    names = [each.name for each in INVARIANTS]
    assert len(set(names)) == len(names)
    assert {each.number for each in INVARIANTS} == {*range(1, 17)}


def test_jobs_that_wait_too_long_for_their_next_entry_are_caught() -> None:
    assert holds("found again", evidence(samples=Samples(waits=[Wait("a crash", 3.0, 12.0)])))
    assert is_broken("found again", evidence(samples=Samples(waits=[Wait("a crash", 12.1, 12.0)])))


def test_a_watcher_gets_every_next_event_once() -> None:
    watched = [
        told_event(3, "attempt_ended", "RUNNING", 1),
        told_event(4, "retry_scheduled", "RUNNING", 1),
        told_event(3, "attempt_ended", "RUNNING", 1, watch="another"),
    ]
    assert holds("events watched", evidence(told=watched))
    assert holds("told truly", evidence(told=watched))


def test_a_gap_and_a_repeat_in_a_watch_are_caught() -> None:
    first = told_event(3, "attempt_ended", "RUNNING", 1)
    assert is_broken("events watched", evidence(told=[first, first]))
    assert is_broken("events watched", evidence(told=[first, told_event(5, "started", "RUNNING", 2)]))


def test_an_event_that_is_told_otherwise_than_it_is_stored_is_caught() -> None:
    assert is_broken("told truly", evidence(told=[told_event(3, "succeeded", "SUCCEEDED", 1)]))
    assert is_broken("told truly", evidence(told=[told_event(7, "started", "RUNNING", 3)]))


def pieces(*places: tuple[int, int]) -> list[Told]:
    return [told({"piece": {"attempt": attempt, "number": number}}) for attempt, number in places]


def test_a_watcher_gets_every_next_piece_once() -> None:
    assert holds("pieces watched", evidence(told=pieces((1, 600), (1, 601), (2, 1), (2, 2))))


def test_a_gap_and_a_repeat_of_pieces_are_caught() -> None:
    for wrong in (((1, 1), (1, 3)), ((1, 1), (1, 1)), ((1, 5), (2, 2)), ((2, 1), (1, 1))):
        assert is_broken("pieces watched", evidence(told=pieces(*wrong)))


def test_places_without_secrets_are_passed() -> None:
    assert holds("secrets kept", evidence(samples=Samples(searches=[Search("api.log")])))


def test_a_secret_in_a_log_is_caught() -> None:
    found = Samples(searches=[Search("api.log"), Search("worker.log", ["input: secret"])])
    assert is_broken("secrets kept", evidence(samples=found))


def a_sample(*, entries: int, demand: int = 4, waiting: int = 5_000, memory_bytes: int = 1 << 20) -> Sample:
    return Sample(0, waiting, memory_bytes, {"baton:lease:{drill}:s": entries}, demand)


def test_a_short_head_of_a_long_backlog_is_passed() -> None:
    samples = Samples(samples=[a_sample(entries=0, waiting=0), a_sample(entries=16)])
    assert holds("heads in Redis", evidence(samples=samples))
    assert holds("flat memory", evidence(samples=samples))


def test_a_backlog_in_redis_is_caught() -> None:
    assert is_broken("heads in Redis", evidence(samples=Samples(samples=[a_sample(entries=5_000)])))


def test_memory_that_grows_with_the_backlog_is_caught() -> None:
    samples = [a_sample(entries=0, waiting=0), a_sample(entries=8, memory_bytes=100 << 20)]
    assert is_broken("flat memory", evidence(samples=Samples(samples=samples)))


def started(*order: tuple[str, int, int], slack: int = 0) -> Evidence:
    """A backlog that started in this order: each job with its owner, its priority, and its place by age."""
    tables = {
        f"job-{place}": a_job(owner=owner, priority=priority, create_time=time(age), start_time=time(place))
        for place, (owner, priority, age) in enumerate(order)
    }
    return Evidence(History(), [], tables, Samples(backlogs=[Backlog(list(tables), slack)]))


def test_owners_take_turns_and_the_more_urgent_then_the_older_goes_first() -> None:
    assert holds("in turn", started(("a", 50, 1), ("b", 50, 9), ("b", 50, 10), ("a", 50, 2), ("a", 50, 3)))
    assert holds("in turn", started(("a", 40, 9), ("a", 50, 1), ("a", 50, 2)))


def test_an_owner_who_goes_first_with_all_jobs_is_caught() -> None:
    assert is_broken("in turn", started(("a", 50, 1), ("a", 50, 2), ("a", 50, 3), ("b", 50, 4)))


def test_new_work_before_old_and_urgent_work_last_are_caught() -> None:
    assert is_broken("in turn", started(("a", 50, 2), ("a", 50, 1)))
    assert is_broken("in turn", started(("a", 50, 1), ("a", 40, 2)))


def test_what_the_head_held_before_may_be_anywhere() -> None:
    late = [("a", 50, age) for age in (6, 1, 2, 3, 4, 5)]
    assert is_broken("in turn", started(*late))
    assert holds("in turn", started(*late, slack=1))
    assert is_broken("in turn", started(*[("a", 50, age) for age in (6, 5, 4, 3, 2, 1)], slack=1))
