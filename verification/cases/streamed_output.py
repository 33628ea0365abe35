"""Case 9: watchers get streamed output whole, from any point, over failures, deaths and their slowness."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from shared.gen.baton.v1 import execution_service_pb2 as execution_pb
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from verification.cases import told_story, views
from verification.cases.case import Case
from verification.cases.told_story import WAIT_SECONDS, Item, require_told, story_of, watch_to_piece
from verification.peers import executor as scripted
from verification.stage.holds import held
from verification.stage.stage import Stage
from verification.unmet import require

_PIECES = 2_000
_FAILS_AFTER = 1_200
_LATER_FROM = 600
_BREAKS_AT = 900
_CHARACTERS = 20
_CURSORS, _EVENTS = 5, 2
"""So many of each are chosen by chance to resume from."""
_LARGE_PIECES, _LARGE_CHARACTERS = 400, 60_000
"""Together far more than connections and queues hold for a watcher that does not read."""
_SLOW_SECONDS = 1.0

_HOLD_PIECE = "insert into output_pieces (job_id, attempt, number, content) values ($1, 1, $2, 'held')"
_STORED = "select coalesce(max(number), 0) from output_pieces where job_id = $1 and attempt = $2"


async def over_a_restart_of_the_api(stage: Stage) -> None:
    """Watchers from the start, from piece 600, and from 900 where one broke off, miss and repeat nothing."""
    job_id = await _streaming_job(stage)
    # An executor sends 256 pieces ahead at most: of those before 900 none waits with the one that is held.
    async with held(stage, _HOLD_PIECE, job_id, _FAILS_AFTER - 1) as hold:
        first = stage.beside(stage.control.watch_to_end(job_id, name="from the start"))
        await stage.executors.start("a")
        to_later = await watch_to_piece(stage.control, job_id, 1, _LATER_FROM, name="to 600")
        later = stage.beside(stage.control.watch_to_end(job_id, name="from 600", cursor=to_later[-1].cursor))
        broken = await watch_to_piece(stage.control, job_id, 1, _BREAKS_AT, name="breaks at 900")
        await hold.until_waited_for()
        life = stage.kill("api")
        resumed = stage.beside(
            stage.control.watch_to_end(job_id, name="breaks at 900", cursor=broken[-1].cursor)
        )
        await stage.restarted(life)
        await _until_told(stage, "breaks at 900", _BREAKS_AT + 1)
    story = await _require_whole_story(stage, job_id, await first)
    require_told("the watcher from 600", await later, told_story.after(story, to_later[-1]))
    require_told("the watcher that broke at 900", [*broken, *await resumed], story)
    await _require_retried_once(stage, job_id)
    failed = [number for what, (of, number, _) in story if what == "piece" and of == 1]
    require(len(failed) == _FAILS_AFTER, f"{len(failed)} pieces are kept of the attempt that failed")
    await _require_from_any_point(stage, job_id, await first, story)


async def over_a_restart_of_the_worker(stage: Stage) -> None:
    """Pieces that are under way when their service dies are stored and told once, in order."""
    job_id = await _streaming_job(stage)
    async with held(stage, _HOLD_PIECE, job_id, _BREAKS_AT + 1) as hold:
        watching = stage.beside(stage.control.watch_to_end(job_id))
        await stage.executors.start("a")
        await hold.until_waited_for()
        stored = await stage.value(_STORED, job_id, 1)
        require(stored <= _BREAKS_AT, f"piece {_BREAKS_AT + 1} is held, and {stored} pieces are stored")
        await stage.kill_and_restart("worker")
    await _require_whole_story(stage, job_id, await watching)


async def over_a_death_of_the_executor(stage: Stage) -> None:
    """When an executor dies in mid-stream, its pieces end there, and the next attempt starts anew."""
    job_id = await _streaming_job(stage, fail_attempts=[])
    async with held(stage, _HOLD_PIECE, job_id, _BREAKS_AT + 1) as hold:
        watching = stage.beside(stage.control.watch_to_end(job_id))
        executor = await stage.executors.start("a", kept_alive=True)
        await hold.until_waited_for()
        executor.kill()
    await _require_whole_story(stage, job_id, await watching)
    await views.require_outcomes(stage, job_id, ["LOST", "SUCCEEDED"])


async def slow_watcher(stage: Stage) -> None:
    """A watcher that does not read is told to come back, and resumes at its cursor without loss."""
    job = await stage.control.create(stage.work(pieces=_LARGE_PIECES, piece_characters=_LARGE_CHARACTERS))
    updates: list[pb.WatchJobResponse] = []
    await stage.executors.start("a")
    async for update in stage.control.watch(job.job_id, name="slow"):
        if not updates:
            await _until_found_slow(stage, job.job_id)
        updates.append(update)
    reason = pb.WatchEndReason.Name(updates[-1].ended.reason)
    require(updates[-1].ended.reason == pb.WATCH_END_REASON_SLOW, f"the slow watch ended with {reason}")
    rest = await stage.control.watch_to_end(job.job_id, name="slow", cursor=updates[-1].cursor)
    story = await story_of(stage, job.job_id)
    pieces = [each for what, each in story if what == "piece"]
    require(len(pieces) == _LARGE_PIECES, f"{len(pieces)} pieces of {_LARGE_PIECES} are stored")
    require_told("the slow watcher", [*updates, *rest], story)
    stage.notes["told before the end"] = len(told_story.told(updates))


async def result_names_its_pieces(stage: Stage) -> None:
    """A result that names other pieces than those that are stored is not taken."""
    job_id = await _streaming_job(stage, fail_attempts=[])
    async with stage.scripted("muddled") as executor:
        await executor.hello(credits=1)
        lease = await executor.lease()
        texts = ("one", "two")
        await executor.send(pieces=scripted.pieces(lease, *texts))
        await executor.until(lambda: len(texts) in executor.pieces_recorded)
        answer = await executor.succeed(
            lease, piece_count=len(texts), pieces_hash=scripted.hash_of("one", "too")
        )
        require(
            answer.outcome == execution_pb.REPORT_OUTCOME_RETRY_SCHEDULED,
            f"a result with the hash of other pieces: {execution_pb.ReportOutcome.Name(answer.outcome)}",
        )
        await executor.goodbye()
    await stage.executors.start("a")
    await _require_whole_story(stage, job_id, await stage.control.watch_to_end(job_id))
    await _require_retried_once(stage, job_id)


async def _streaming_job(stage: Stage, **order: object) -> str:
    work = {
        "pieces": _PIECES,
        "piece_characters": _CHARACTERS,
        "fail_attempts": [1],
        "fail_after_items": _FAILS_AFTER,
    }
    job = await stage.control.create(stage.work(**{**work, **order}))
    return job.job_id


async def _require_whole_story(
    stage: Stage, job_id: str, updates: Sequence[pb.WatchJobResponse]
) -> list[Item]:
    """Require that a watch told all, with a reset mark, and the last attempt the result; return all."""
    story = await story_of(stage, job_id)
    require_told("the watcher from the start", updates, story)
    events, pieces = await told_story.events_of(stage, job_id), await told_story.pieces_of(stage, job_id)
    attempts = sorted({attempt for attempt, _, _ in pieces})
    for attempt in attempts:
        numbers = [number for of, number, _ in pieces if of == attempt]
        require(
            numbers == [*range(1, len(numbers) + 1)], f"attempt {attempt} has pieces with gaps: {numbers}"
        )
    resets = [attempt for _, kind, attempt in events if kind == "output_reset"]
    require(resets == attempts[1:], f"attempts {attempts} streamed, and the resets are of {resets}")
    require(len(attempts) > 1, "one attempt streamed all, which shows nothing")
    await _require_result(stage, job_id, [text for attempt, _, text in pieces if attempt == attempts[-1]])
    return story


async def _require_result(stage: Stage, job_id: str, texts: Sequence[str]) -> None:
    """Require that these are the pieces of the attempt that succeeded."""
    right = [f"{number} ".ljust(_CHARACTERS, ".") for number in range(1, _PIECES + 1)]
    require(texts == right, f"the result's attempt has {len(texts)} pieces, not those that were ordered")
    (last,) = [
        each.number
        for each in await stage.control.attempts(job_id)
        if each.outcome == job_pb2.ATTEMPT_OUTCOME_SUCCEEDED
    ]
    kept = await stage.control.insist("GetJobOutput", pb.GetJobOutputRequest(job_id=job_id))
    output = json.loads(kept.output)
    require(output["attempt"] == last, f"attempt {last} succeeded, and the output is of {output['attempt']}")
    canonical = json.dumps(output, sort_keys=True, separators=(",", ":")).encode()
    require(kept.output_hash == hashlib.sha256(canonical).hexdigest(), "the output has another hash")


async def _require_retried_once(stage: Stage, job_id: str) -> None:
    """Require that the first attempt failed, and the second, its output reset, succeeded."""
    kinds = [(kind, attempt) for _, kind, attempt in await told_story.events_of(stage, job_id)]
    expected = [("started", 1), ("attempt_ended", 1), ("started", 2), ("output_reset", 2), ("succeeded", 2)]
    missing = [each for each in expected if each not in kinds]
    require(not missing and kinds[-1] == expected[-1], f"the events are {kinds}")
    order = [kinds.index(each) for each in expected]
    require(order == sorted(order), f"the events are out of order: {kinds}")
    await views.require_outcomes(stage, job_id, ["FAILED", "SUCCEEDED"])


async def _require_from_any_point(
    stage: Stage, job_id: str, updates: Sequence[pb.WatchJobResponse], story: Sequence[Item]
) -> None:
    """Require that any cursor, and any event's number, leads to all that follows."""
    numbered = [each for each in updates if told_story.told([each])]
    for each in stage.random.sample(numbered, _CURSORS):
        rest = await stage.control.watch_to_end(job_id, cursor=each.cursor)
        require_told("a watcher from a cursor", rest, told_story.after(story, each))
    events = [each for each in numbered[:-1] if each.HasField("event")]
    for each in stage.random.sample(events, _EVENTS):
        number = each.event.number
        rest = [update async for update in stage.control.watch(job_id, after_event_number=number)]
        require_told(f"a watcher from event {number}", rest, told_story.after(story, each))


async def _until_told(stage: Stage, name: str, number: int) -> None:
    await stage.until(
        lambda: any(
            each.watch == name and each.update.get("piece", {}).get("number") == number
            for each in stage.history.told
        ),
        seconds=WAIT_SECONDS,
        what=f"the watcher that {name} to be told piece {number}",
    )


async def _until_found_slow(stage: Stage, job_id: str) -> None:
    """Wait until the service has given up a watcher; nothing but its log tells."""
    await stage.until(
        lambda: any(
            "watch.too_slow" in line and job_id in line for line in stage.stack.log("api").splitlines()
        ),
        seconds=WAIT_SECONDS,
        what="the service to find the watcher slow",
    )


CASE = Case(
    9,
    "streamed output",
    (
        over_a_restart_of_the_api,
        over_a_restart_of_the_worker,
        over_a_death_of_the_executor,
        slow_watcher,
        result_names_its_pieces,
    ),
    settings={"BATON_WATCH__SLOW_SECONDS": str(_SLOW_SECONDS)},
)
