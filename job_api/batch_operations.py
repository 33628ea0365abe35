"""What can be asked about batches, built from the parts of a process."""

from __future__ import annotations

from datetime import timedelta

from job_api.operations.advance_batch import AdvanceBatch
from job_api.operations.cancel_batch import CancelBatch
from job_api.operations.create_batch import CreateBatch
from job_api.operations.estimate_batch import EstimateBatch
from job_api.operations.get_batch import GetBatch
from job_api.operations.job_request import JobRequests
from job_api.operations.list_batch_items import ListBatchItems
from job_api.operations.list_batches import ListBatches
from job_api.operations.retry_batch_items import RetryBatchItems
from job_api.operations.select_batch_items import SelectBatchItems
from job_api.operations.watch_batch import WatchBatch
from job_api.parts import Parts
from job_api.rpc.batch_servicer import BatchOperations
from shared.runtime.ids import new_id


def batch_operations(parts: Parts) -> BatchOperations:
    settings, transactions, wake_ups = parts.settings, parts.transactions, parts.wake_ups
    return BatchOperations(
        estimate_batch=EstimateBatch(parts.catalog, {}),
        create_batch=CreateBatch(
            transactions,
            JobRequests(parts.catalog, input_bytes_max=settings.limits.input_bytes_max),
            parts.quotas,
            new_id=new_id,
            keys_kept_for=timedelta(hours=settings.idempotency_hours),
            wake_dispatcher=parts.wake_dispatcher,
        ),
        get_batch=GetBatch(transactions),
        list_batches=ListBatches(transactions),
        list_batch_items=ListBatchItems(transactions),
        cancel_batch=CancelBatch(transactions, wake_ups),
        retry_batch_items=RetryBatchItems(
            transactions,
            parts.catalog,
            wake_ups,
            parts.quotas,
            new_id=new_id,
            wake_dispatcher=parts.wake_dispatcher,
        ),
        select_batch_items=SelectBatchItems(transactions, wake_ups),
        advance_batch=AdvanceBatch(transactions, wake_ups),
        watch_batch=WatchBatch(
            transactions,
            parts.batch_feed,
            keep_alive=timedelta(seconds=settings.watch.keep_alive_seconds),
        ),
    )
