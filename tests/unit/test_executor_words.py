"""The words in which an executor tells how attempts end, what it selects, and how it paces pieces."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque

import pytest

from job_worker.executor import report_words
from job_worker.executor.handler import Cancelled, HandlerFailure
from job_worker.executor.held_lease import HeldLease, LeaseBook, StopReason
from job_worker.executor.piece_flow import PIECES_UNSTORED_MAX, PieceFlow
from job_worker.executor.selection import select
from job_worker.executor.settings import ExecutorSettings
from job_worker.executor.wording import fitted, tail
from shared.catalog import catalog
from shared.domain.identity import QueueName
from shared.domain.naming import there_are
from shared.gen.baton.internal.v1.handler_pipe_pb2 import Ceased, WorkEnd
from shared.gen.baton.v1 import execution_service_pb2 as pb
from shared.runtime.faults import StartupFault

SUCCESS = WorkEnd(success=pb.Success(output=b"{}"))
FAILURE = WorkEnd(failure=pb.Failure(code="PROVIDER_TIMEOUT", message="late"))
CEASED = WorkEnd(ceased=Ceased())


def held(stop: StopReason | None = None, number: int = 1) -> HeldLease:
    lease = pb.Lease(job_id=f"job-{number}", token="1.token", queue="drill")
    return HeldLease(number, lease, pb.LeaseRef(job_id=lease.job_id, token=lease.token), 0.0, stop=stop)


def words(report: pb.Report) -> str:
    match report.WhichOneof("end"):
        case "failure":
            return report.failure.code
        case "give_back":
            return pb.GiveBackReason.Name(report.give_back.reason).removeprefix("GIVE_BACK_REASON_")
        case "stopped":
            return "killed" if report.stopped.killed else "stopped"
        case other:
            return str(other)


@pytest.mark.parametrize(
    ("stop", "end", "told"),
    [
        (None, SUCCESS, "success"),
        (None, FAILURE, "PROVIDER_TIMEOUT"),
        (StopReason.CANCEL, SUCCESS, "success"),
        (StopReason.CANCEL, FAILURE, "stopped"),
        (StopReason.CANCEL, CEASED, "stopped"),
        (StopReason.TIMEOUT, SUCCESS, "TIMEOUT"),
        (StopReason.TIMEOUT, FAILURE, "TIMEOUT"),
        (StopReason.TIMEOUT, CEASED, "TIMEOUT"),
        (StopReason.DRAINING, SUCCESS, "success"),
        (StopReason.DRAINING, FAILURE, "DRAINING"),
        (StopReason.DRAINING, CEASED, "DRAINING"),
    ],
)
def test_why_a_handler_was_to_stop_counts_before_how_it_ended(
    stop: StopReason | None, end: WorkEnd, told: str
) -> None:
    assert words(report_words.of_end(held(stop), end)) == told


@pytest.mark.parametrize(
    ("stop", "killed", "told"),
    [
        (None, False, "PROCESS_DIED"),
        (None, True, "NEIGHBOUR_KILLED"),
        (StopReason.CANCEL, True, "killed"),
        (StopReason.CANCEL, False, "stopped"),
        (StopReason.TIMEOUT, True, "TIMEOUT"),
        (StopReason.DRAINING, True, "DRAINING"),
    ],
)
def test_a_death_is_told_by_whose_fault_it_was(stop: StopReason | None, killed: bool, told: str) -> None:
    assert words(report_words.of_death(held(stop), killed=killed, alone=False)) == told


async def test_who_has_grace_left_when_its_process_is_killed_for_another_is_not_the_one_who_ignored() -> None:
    loop = asyncio.get_running_loop()
    stopping, late = held(StopReason.CANCEL), held(StopReason.CANCEL, 2)
    stopping.set_alarm(loop.call_later(60, print))
    late.set_alarm(loop.call_later(0, print))
    told = [words(report_words.of_death(each, killed=True, alone=False)) for each in (stopping, late)]
    stopping.set_alarm(None)
    late.set_alarm(None)

    assert told == ["stopped", "killed"]


def test_the_book_knows_what_it_holds_and_when_it_is_empty() -> None:
    book = LeaseBook({})
    first, second = held(number=1), held(number=2)
    book.add(first)
    book.add(second)
    assert (len(book), book.emptied.is_set()) == (2, False)
    assert book.remove(first.ref) is first
    assert book.remove(first.ref) is None
    assert second in book
    assert first not in book
    book.remove(second.ref)
    assert (len(book), book.emptied.is_set()) == (0, True)


def test_a_handlers_end_makes_room_while_no_more_ends_are_unanswered_than_handlers_run() -> None:
    drill = QueueName("drill")
    book = LeaseBook({drill: 2})
    assert book.new_credits() == {drill: 2}
    assert book.new_credits() == {}
    credits, leases = 2, deque[HeldLease]()
    for number in range(1, 5):
        leases.append(held(number=number))
        book.add(leases[-1])
        book.end(leases[-1], pb.Report())
        credits += book.new_credits().get(drill, 0) - 1
    assert credits == 0
    for number in (1, 2, 3, 4):
        book.remove(leases.popleft().ref)
        assert book.new_credits().get(drill, 0) == (1 if number <= 2 else 0)


def test_a_lease_that_is_lost_makes_room_and_a_new_session_is_told_all_room_that_there_is() -> None:
    drill = QueueName("drill")
    book = LeaseBook({drill: 3})
    book.new_credits()
    running, lost, ended = held(number=1), held(number=2), held(number=3)
    for each in (running, lost, ended):
        book.add(each)
    book.remove(lost.ref)
    assert book.new_credits() == {drill: 1}
    book.end(ended, pb.Report())
    book.forget_credits()
    assert book.new_credits() == {drill: 2}


def test_texts_are_cut_with_an_ellipsis_and_hold_only_what_can_be_stored() -> None:
    assert fitted("abc", 3) == "abc"
    assert fitted("abcd", 3) == "ab…"
    assert tail("abcd", 3) == "…cd"
    assert fitted("a\0\ud800", 10) == "a\ufffd?"


def test_what_is_served_is_named_by_queue_group_or_type() -> None:
    known = catalog.load()
    everything = select(known, queues=(), groups=(), job_types=())
    drills = select(known, queues=("drill",), groups=(), job_types=())
    assert {each.job_type for each in everything.definitions} == known.definitions.keys()
    assert ([each.job_type for each in drills.definitions], drills.room) == (["synthetic"], {"drill": 64})
    images = select(known, queues=(), groups=("image",), job_types=("media_verify",))
    assert images.room == {"image_matting": 2, "image_render": 2, "media_verify": 2}
    with pytest.raises(StartupFault) as caught:
        select(known, queues=("a",), groups=("b",), job_types=("c",))
    queue, group, job_type = caught.value.faults
    assert queue.startswith("there is no queue 'a'; there are ai-background, ai-interactive, delivery_zip")
    assert group == "there is no group 'b'; there are ai, delivery, image, script, verify, video"
    assert job_type.startswith(
        "there is no job type 'c'; there are delivery_zip, document_import, export_package"
    )


def test_no_more_than_twenty_names_are_told() -> None:
    assert there_are(()) == ""
    assert there_are(f"{n:02}" for n in range(20)).endswith(", 19")
    assert there_are(f"{n:02}" for n in range(21)).endswith(", 19, and more")


def test_names_in_the_environment_stand_between_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATON_JOB_MODULES", "mine, yours,")
    monkeypatch.setenv("BATON_QUEUES__DRILL__AT_ONCE", "3")
    settings = ExecutorSettings()
    assert settings.job_modules == ("mine", "yours")
    assert settings.queues["drill"].at_once == 3


async def test_pieces_wait_for_room_and_are_hashed_in_order() -> None:
    flow, cancelled = PieceFlow(piece_bytes_max=10), asyncio.Event()
    for number in range(1, PIECES_UNSTORED_MAX + 1):
        assert await flow.admit("a", cancelled) == number
    waiting = asyncio.create_task(flow.admit("b", cancelled))
    await asyncio.sleep(0)
    assert not waiting.done()
    flow.stored(1)
    assert await waiting == PIECES_UNSTORED_MAX + 1
    assert flow.hash == hashlib.sha256(b"a" * PIECES_UNSTORED_MAX + b"b").hexdigest()


async def test_who_waits_for_room_and_is_to_stop_stops() -> None:
    flow, cancelled = PieceFlow(piece_bytes_max=10), asyncio.Event()
    for _ in range(PIECES_UNSTORED_MAX):
        await flow.admit("a", cancelled)
    waiting = asyncio.create_task(flow.admit("b", cancelled))
    await asyncio.sleep(0)
    cancelled.set()
    flow.wake()
    with pytest.raises(Cancelled):
        await waiting


@pytest.mark.parametrize(
    ("text", "code"),
    [("x" * 11, "PAYLOAD_TOO_LARGE"), ("\0", "VALIDATION_OUTPUT"), ("\ud800", "VALIDATION_OUTPUT")],
)
async def test_a_piece_that_no_service_takes_fails_the_attempt(text: str, code: str) -> None:
    with pytest.raises(HandlerFailure, match=code):
        await PieceFlow(piece_bytes_max=10).admit(text, asyncio.Event())
