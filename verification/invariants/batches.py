"""What holds of batches: counters add up and are true at every moment, and each settling is one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from verification.evidence.batches import COUNTERS, BatchMoment, BatchRows
from verification.evidence.evidence import Evidence
from verification.evidence.history import Message
from verification.evidence.tables import Row
from verification.invariants.invariant import Invariant, Judge

_OPEN = frozenset({"QUEUED", "RUNNING"})
_ENDED = frozenset({"SUCCEEDED", "FAILED", "CANCELLED"})


def adds_up(moment: BatchMoment) -> Iterator[str]:
    """The counters add up to the size, and are what jobs and leases of that moment say."""
    if sum(moment.counters.values()) != moment.size:
        yield f"its counters {dict(moment.counters)} do not add up to {moment.size}"
    if moment.counters != moment.items:
        yield f"its counters are {dict(moment.counters)}, and its items {dict(moment.items)}"


def settled_when_closed(moment: BatchMoment) -> Iterator[str]:
    """It is settled exactly while no item is open, and others are told of each settling with it."""
    is_open = bool(moment.counters["waiting"] + moment.counters["running"])
    if is_open != (moment.state in _OPEN):
        yield f"it is {moment.state} with the counters {dict(moment.counters)}"
    if moment.finished != moment.settlings:
        yield f"it has settled {moment.settlings} times, and others were told {moment.finished} times"


def numbered(rows: BatchRows) -> Iterator[str]:
    """Events are numbered 1, 2, 3, each one's counters add up, and the last one tells what the batch is."""
    numbers = [each["number"] for each in rows.events]
    if numbers != list(range(1, rows.row["event_count"] + 1)):
        yield f"its events are numbered {numbers}, and it counts {rows.row['event_count']}"
    for each in rows.events:
        if sum(each[name] for name in COUNTERS) != rows.row["size"]:
            yield f"after event {each['number']} its counters do not add up to {rows.row['size']}"
    if rows.events and (last := _told(rows.events[-1])) != _told(rows.row):
        yield f"its last event tells {last}, and it is {_told(rows.row)}"


def settled_once(rows: BatchRows) -> Iterator[str]:
    """Each settling has one event, and one message to other services, numbered 1, 2, 3."""
    settlings, before = 0, "QUEUED"
    for each in rows.events:
        settlings += not each["item"] and before in _OPEN and each["state"] not in _OPEN
        before = each["state"]
    if settlings != rows.row["settlings"]:
        yield f"{settlings} of its events settle it, and it has settled {rows.row['settlings']} times"
    told = [each["dedupe_key"] for each in rows.outgoing]
    wanted = [f"batch.finished:{rows.row['batch_id']}:{number}" for number in range(1, settlings + 1)]
    if told != wanted:
        yield f"it has settled {settlings} times, and other services were told {told}"


def _ended_once(evidence: Evidence) -> Iterator[str | None]:
    """Each job that ended is the end of its item once, as the events of its batch tell."""
    ends: dict[str, list[tuple[int, str]]] = {}
    for rows in evidence.tables.values():
        if rows.jobs and rows.job.get("batch_id") and rows.state in _ENDED:
            ends.setdefault(rows.job["batch_id"], []).append((rows.job["batch_item"], rows.state))
    for batch_id, rows_of in evidence.batches.items():
        told = sorted((each["item"], each["item_state"]) for each in rows_of.events if each["item"])
        ended = sorted(ends.get(batch_id, ()))
        yield None if told == ended else f"batch {batch_id} tells of the ends {told}, and its jobs of {ended}"


def _of_each_moment(rule: Callable[[BatchMoment], Iterator[str]]) -> Judge:
    def judge(evidence: Evidence) -> Iterator[str | None]:
        for moment in evidence.samples.batches:
            faults = "; ".join(rule(moment))
            yield f"batch {moment.batch_id} after {moment.time:.1f} s: {faults}" if faults else None

    return judge


def _of_each_batch(rule: Callable[[BatchRows], Iterator[str]]) -> Judge:
    def judge(evidence: Evidence) -> Iterator[str | None]:
        for batch_id, rows in evidence.batches.items():
            faults = "; ".join(rule(rows))
            yield f"batch {batch_id}: {faults}" if faults else None

    return judge


def _answers_add_up(evidence: Evidence) -> Iterator[str | None]:
    """Whatever a caller is told of a batch adds up to its size."""
    for call in evidence.history.calls:
        for batch in _batches(call.response or {}):
            size, counters = batch.get("size", 0), batch.get("counters", {})
            adds = sum(counters.values()) == size
            yield None if adds else f"{call.method} told of batch {batch['batchId']}: {counters} of {size}"


def _batches(response: Message) -> Iterator[Mapping[str, Any]]:
    found = [response.get("batch"), *response.get("batches", ())]
    return (each for each in found if each)


def _told(row: Row) -> tuple[object, ...]:
    return (row["state"], *(row[name] for name in COUNTERS))


INVARIANTS = (
    Invariant(
        9,
        "counters add up",
        "at every moment a batch's counters add up to its size and are what its items are",
        _of_each_moment(adds_up),
    ),
    Invariant(
        9,
        "settled when closed",
        "at every moment a batch has settled exactly if no item is open",
        _of_each_moment(settled_when_closed),
    ),
    Invariant(
        9, "batch events", "a batch's events are numbered, add up, and tell its end", _of_each_batch(numbered)
    ),
    Invariant(
        9, "settled once", "each settling is told once, by event and message", _of_each_batch(settled_once)
    ),
    Invariant(9, "items end once", "a batch tells of the end of each of its jobs once", _ended_once),
    Invariant(9, "answers add up", "what callers are told of a batch adds up", _answers_add_up),
)
