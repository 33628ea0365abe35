"""Every call about a batch in every state that a batch can be in, the refused ones too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from job_api.operations.caller import Caller
from shared.domain.batches import BatchState
from shared.domain.errors import BatchNotFound, BatchStateConflict
from shared.domain.identity import BatchId
from shared.runtime.ids import new_id
from shared.storage.transactions import Transactions
from shared.streams.wake_ups import WakeUps
from tests.support.batch_calls import OWNER, STRANGER, BatchCalls, batch_in
from tests.support.batches import (
    a_batch,
    events_of,
    everything_about_batches,
    faults_of_batches,
    the_batch,
)

S = BatchState


@pytest.fixture
def calls(transactions: Transactions, wake_ups: WakeUps) -> BatchCalls:
    return BatchCalls(transactions, wake_ups)


CANCEL, RETRY, RETRY_ONE, SELECT, EXPORT, STORE = (
    "cancel",
    "retry all that failed",
    "retry one",
    "select",
    "export",
    "store",
)
CALLS: dict[str, Callable[[BatchCalls, BatchId, Caller], Awaitable[Any]]] = {
    CANCEL: lambda calls, batch_id, caller: calls.cancel(batch_id, caller=caller),
    RETRY: lambda calls, batch_id, caller: calls.retry(batch_id, caller=caller),
    RETRY_ONE: lambda calls, batch_id, caller: calls.retry(batch_id, 2, caller=caller),
    SELECT: lambda calls, batch_id, caller: calls.select(batch_id, 1, caller=caller),
    EXPORT: lambda calls, batch_id, caller: calls.advance(batch_id, S.EXPORTED, caller=caller),
    STORE: lambda calls, batch_id, caller: calls.advance(batch_id, S.STORED, caller=caller),
}
LEADS_TO = {
    (CANCEL, S.QUEUED): S.CANCELLED,
    (CANCEL, S.RUNNING): S.CANCELLED,
    (CANCEL, S.CANCELLED): S.CANCELLED,
    (RETRY, S.QUEUED): S.QUEUED,
    (RETRY, S.RUNNING): S.RUNNING,
    (RETRY, S.PARTIALLY_FAILED): S.QUEUED,
    (RETRY, S.FAILED): S.QUEUED,
    (RETRY_ONE, S.RUNNING): S.RUNNING,
    (RETRY_ONE, S.PARTIALLY_FAILED): S.QUEUED,
    (RETRY_ONE, S.FAILED): S.QUEUED,
    (SELECT, S.PARTIALLY_FAILED): S.SELECTED,
    (SELECT, S.AWAITING_REVIEW): S.SELECTED,
    (SELECT, S.SELECTED): S.SELECTED,
    (EXPORT, S.SELECTED): S.EXPORTED,
    (EXPORT, S.EXPORTED): S.EXPORTED,
    (STORE, S.EXPORTED): S.STORED,
    (STORE, S.STORED): S.STORED,
}
"""What a call leads to from each state; what is not here is refused and changes nothing."""
REPEATED = {
    (CANCEL, S.CANCELLED),
    (RETRY, S.QUEUED),
    (SELECT, S.SELECTED),
    (EXPORT, S.EXPORTED),
    (STORE, S.STORED),
}
"""Allowed, and nothing is written: it is done already, or there is nothing to do."""


@pytest.mark.parametrize("state", BatchState)
@pytest.mark.parametrize("call", CALLS)
async def test_every_call_in_every_state(
    transactions: Transactions, calls: BatchCalls, call: str, state: BatchState
) -> None:
    batch_id = await batch_in(transactions, calls, state)
    before = await everything_about_batches(transactions)
    if (call, state) in LEADS_TO:
        await CALLS[call](calls, batch_id, OWNER)
        assert (await the_batch(transactions, batch_id)).state is LEADS_TO[call, state]
    else:
        with pytest.raises(BatchStateConflict) as refused:
            await CALLS[call](calls, batch_id, OWNER)
        assert refused.value.metadata == {"batch_id": str(batch_id)}
    unchanged = (call, state) not in LEADS_TO or (call, state) in REPEATED
    assert (await everything_about_batches(transactions) == before) is unchanged
    assert await faults_of_batches(transactions) == []
    await events_of(transactions, batch_id)


@pytest.mark.parametrize("call", CALLS)
async def test_a_batch_of_another_owner_and_one_that_never_was_do_not_exist(
    transactions: Transactions, calls: BatchCalls, call: str
) -> None:
    batch_id = await a_batch(transactions, 1)
    before = await everything_about_batches(transactions)
    with pytest.raises(BatchNotFound):
        await CALLS[call](calls, batch_id, STRANGER)
    with pytest.raises(BatchNotFound):
        await CALLS[call](calls, BatchId(new_id()), OWNER)
    assert await everything_about_batches(transactions) == before
