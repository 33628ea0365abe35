from __future__ import annotations

import asyncio

import grpc
import pytest

from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.identity import JobId
from shared.domain.jobs import JobState
from shared.domain.leases import Lease
from tests.support import storage
from tests.support.control_service import Control, refused
from tests.support.watches import add_pieces, next_of, rest_of, told, told_once, until_ended

FAILED = AttemptEnd(AttemptOutcome.FAILED, storage.RETRYABLE)
SUCCEEDED = AttemptEnd(AttemptOutcome.SUCCEEDED)


async def a_streamed_job(control: Control) -> JobId:
    """A job whose first attempt fails after three pieces, and whose second succeeds with two."""
    lease = await storage.a_lease(control.transactions)
    await add_pieces(control, lease, 1, 2, 3)
    await storage.end_attempt(control.transactions, lease.ref, FAILED)
    lease = await storage.a_lease(control.transactions, job_id=lease.ref.job_id, attempt=2)
    await add_pieces(control, lease, 1)
    await add_pieces(control, lease, 2)
    await storage.end_attempt(control.transactions, lease.ref, SUCCEEDED)
    return lease.ref.job_id


WHOLE_STORY = [
    "created 0",
    "started 1",
    "piece 1.1",
    "piece 1.2",
    "piece 1.3",
    "attempt_ended 1",
    "retry_scheduled 1",
    "started 2",
    "output_reset 2",
    "piece 2.1",
    "piece 2.2",
    "succeeded 2",
    "ended FINISHED",
]


async def test_a_job_that_ended_long_ago_tells_its_whole_story_and_ends(control: Control) -> None:
    made = await a_streamed_job(control)
    messages = await until_ended(control.watch(made))
    assert told(messages) == WHOLE_STORY
    numbers = [each.event.number for each in messages if each.HasField("event")]
    assert numbers == list(range(1, 8))


async def test_every_cursor_resumes_right_behind_its_message(control: Control) -> None:
    made = await a_streamed_job(control)
    messages = await until_ended(control.watch(made))
    for index, message in enumerate(messages):
        resumed = await until_ended(control.watch(made, cursor=message.cursor))
        assert told(resumed) == WHOLE_STORY[index + 1 :] or index == len(messages) - 1
        assert resumed[-1].cursor == messages[-1].cursor


async def test_a_number_resumes_behind_its_event_with_the_pieces_of_the_running_attempt(
    control: Control,
) -> None:
    made = await a_streamed_job(control)
    behind = {1: 1, 2: 2, 3: 6, 4: 7, 5: 8, 6: 9, 7: 12}
    for number, start in behind.items():
        messages = await until_ended(control.watch(made, after_event_number=number))
        assert told(messages) == WHOLE_STORY[start:]


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.CANCELLED])
async def test_other_ends_are_told_too(control: Control, state: JobState) -> None:
    made = await storage.job_in(control.transactions, state)
    messages = await until_ended(control.watch(made))
    assert told(messages) == [
        "created 0",
        "started 1",
        "attempt_ended 1",
        f"{state.lower()} 1",
        "ended FINISHED",
    ]
    if state is JobState.FAILED:
        assert messages[3].event.error.code == "INPUT_BROKEN"


async def test_a_cursor_that_is_none_of_this_job_is_refused(control: Control) -> None:
    job, other = await control.create(), await control.create()
    watch = control.watch(other.job_id)
    foreign = (await next_of(watch)).cursor
    watch.cancel()
    for cursor in (foreign, "nonsense", "é", "A" * 5_000, foreign[:-2]):
        refusal = await refused(control.watch(job.job_id, cursor=cursor))
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
        assert (refusal.reason, refusal.fields) == ("INVALID_INPUT", ["cursor"])
    for number in (2, 2**31, 2**64 - 1):
        refusal = await refused(control.watch(job.job_id, after_event_number=number))
        assert (refusal.reason, refusal.fields) == ("INVALID_INPUT", ["after_event_number"])


async def test_many_attempts_are_told_in_order_whatever_falls_between_reads(control: Control) -> None:
    job_id = await storage.a_job(control.transactions)
    watch = control.watch(job_id)
    expected = ["created 0"]

    async def run_attempts() -> None:
        for attempt in range(1, 4):
            lease = await storage.a_lease(control.transactions, job_id=job_id, attempt=attempt)
            expected.append(f"started {attempt}")
            if attempt > 1:
                expected.append(f"output_reset {attempt}")
            for number in range(1, 81):
                await add_pieces(control, lease, number)
                expected.append(f"piece {attempt}.{number}")
                async with control.transactions.begin() as transaction:
                    await transaction.jobs.get(job_id)
            last = attempt == 3
            await storage.end_attempt(control.transactions, lease.ref, SUCCEEDED if last else FAILED)
            ended = [f"attempt_ended {attempt}", f"retry_scheduled {attempt}"]
            expected.extend(["succeeded 3"] if last else ended)

    running = asyncio.create_task(run_attempts())
    seen = await rest_of(watch)
    await running
    assert seen == [*expected, "ended FINISHED"]
    assert told(await until_ended(control.watch(job_id))) == seen


async def test_watchers_who_stand_apart_each_get_everything_once(control: Control) -> None:
    lease = await storage.a_lease(control.transactions)
    await add_pieces(control, lease, *range(1, 501))
    watches = [control.watch(lease.ref.job_id) for _ in range(3)]
    cursor = ""
    while not cursor:
        message = await next_of(watches[0])
        if told_once(message) == "piece 1.250":
            cursor = message.cursor
    watches += [control.watch(lease.ref.job_id, cursor=cursor) for _ in range(2)]
    ending = asyncio.create_task(
        end_with_pieces(control, lease, range(501, 601)), name="the rest of the attempt"
    )
    stories = await asyncio.gather(*(rest_of(each) for each in watches))
    await ending
    whole = ["created 0", "started 1", *(f"piece 1.{n}" for n in range(1, 601)), "succeeded 1"]
    whole.append("ended FINISHED")
    assert stories[0] == whole[whole.index("piece 1.251") :]
    assert stories[1] == stories[2] == whole
    assert stories[3] == stories[4] == stories[0]


async def end_with_pieces(control: Control, lease: Lease, numbers: range) -> None:
    for number in numbers:
        await add_pieces(control, lease, number)
    await storage.end_attempt(control.transactions, lease.ref, SUCCEEDED)
