"""Kills of an api between the commit of a call about a batch and its answer, and the same call again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from google.protobuf.message import Message

from shared.gen.baton.v1 import batch_pb2
from shared.gen.baton.v1 import job_control_pb2 as pb
from verification.cases.lanes import Lane, lane
from verification.evidence.history import OK
from verification.evidence.tables import LABEL
from verification.peers.cuttable import Direction
from verification.stage.stage import Stage
from verification.unmet import require

_ROUNDS = 20
_COMMIT_SECONDS = 60.0
_GOOD, _BROKEN = 3, 2
_MANY, _ITEM_SECONDS = 200, 1.0
"""So many and so long that an api starts again before two executors have run them."""

_MADE = "select count(*) from idempotency_keys join batches using (batch_id) where key = $1"
_SETTLINGS = "select settlings from batches where batch_id = $1"
_STATE = "select state from batches where batch_id = $1"
_JOBS = "select count(*) from jobs where batch_id = $1"
_RECORDS = """
select jsonb_object_agg(action, number) from (
    select action, count(*) as number from audit_records where aggregate_id = $1 group by action) counted
"""


async def answers_about_batches_lost_after_commit(stage: Stage) -> None:
    """A call about a batch whose answer is lost is made again, and what it does is done once."""
    rounds = stage.scaled(_ROUNDS)
    await stage.executors.start_all("a", "b", queues__drill__at_once=8)
    async with lane(stage) as own:
        for _ in range(rounds):
            await _tried_again_and_taken_on(own)
            await _cancelled(own)
    stage.notes["rounds"] = rounds


async def _lost(own: Lane, request: Message, query: str, argument: str, found: object) -> Any:
    """Call, kill the api once a query finds what was committed, and return the answer in the end."""
    method = type(request).__name__.removesuffix("Request")
    await own.connect()
    begin = len(own.stage.history.calls)
    own.way.swallow(Direction.TO_CLIENT)
    called = own.stage.beside(own.caller.insist(method, request))
    await own.stage.until_value(
        query, argument, holds=lambda value: value == found, seconds=_COMMIT_SECONDS, what=method
    )
    await own.api.kill()
    await own.come_back()
    answer = await called
    first = next(each for each in own.stage.history.calls[begin:] if each.method == method)
    require(first.status != OK, f"the first {method} was answered before the kill")
    return answer


async def _tried_again_and_taken_on(own: Lane) -> None:
    stage = own.stage
    broken = stage.work(fail_attempts=list(range(1, 101)), fail_code="INPUT_BROKEN")
    batch_id = await _created(own, [stage.work()] * _GOOD + [broken] * _BROKEN)
    await stage.until_value(
        _SETTLINGS,
        batch_id,
        holds=lambda value: value == 1,
        seconds=_COMMIT_SECONDS,
        what="the batch to settle",
    )
    # Its answer is lost until the items have failed once more: without its key they would run a third time.
    retry = pb.RetryBatchItemsRequest(batch_id=batch_id, idempotency_key=uuid4().hex)
    require((await _lost(own, retry, _SETTLINGS, batch_id, 2)).replayed, "the retry was made twice")
    jobs = await stage.value(_JOBS, batch_id)
    require(jobs == _GOOD + 2 * _BROKEN, f"the items have {jobs} jobs")

    select = pb.SelectBatchItemsRequest(batch_id=batch_id, items=range(1, _GOOD + 1))
    await _lost(own, select, _STATE, batch_id, "SELECTED")
    for state in (batch_pb2.BATCH_STATE_EXPORTED, batch_pb2.BATCH_STATE_STORED):
        name = batch_pb2.BatchState.Name(state).removeprefix("BATCH_STATE_")
        await _lost(own, pb.AdvanceBatchRequest(batch_id=batch_id, state=state), _STATE, batch_id, name)
    records = {"batch.create": 1, "batch.retry": 1, "batch.select": 1, "batch.advance": 2}
    await _require_records(stage, batch_id, records)


async def _cancelled(own: Lane) -> None:
    batch_id = await _created(own, [own.stage.work(duration_seconds=_ITEM_SECONDS)] * _MANY)
    answer = await _lost(own, pb.CancelBatchRequest(batch_id=batch_id), _STATE, batch_id, "CANCELLED")
    require(answer.batch.state == batch_pb2.BATCH_STATE_CANCELLED, f"it is told as {answer.batch}")
    await _require_records(own.stage, batch_id, {"batch.create": 1, "batch.cancel": 1})


async def _created(own: Lane, items: Sequence[Mapping[str, Any]]) -> str:
    request = pb.CreateBatchRequest(
        job_type="synthetic",
        inputs=[json.dumps(each).encode() for each in items],
        idempotency_key=uuid4().hex,
        labels={LABEL: own.stage.run},
    )
    answer = await _lost(own, request, _MADE, request.idempotency_key, 1)
    require(answer.replayed, f"another batch {answer.batch.batch_id} was made")
    return str(answer.batch.batch_id)


async def _require_records(stage: Stage, batch_id: str, wanted: Mapping[str, int]) -> None:
    found = json.loads(await stage.value(_RECORDS, batch_id) or "{}")
    require(found == wanted, f"the records about batch {batch_id} are {found}, and should be {wanted}")
