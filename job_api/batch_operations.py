"""What can be asked about batches, built from the parts of a process."""

from __future__ import annotations

from datetime import timedelta

from job_api.operations.advance_batch import AdvanceBatch
from job_api.operations.cancel_batch import CancelBatch
from job_api.operations.create_batch import CreateBatch
from job_api.operations.estimate_batch import EstimateBatch, ItemEstimate
from job_api.operations.get_batch import GetBatch
from job_api.operations.list_batch_items import ListBatchItems
from job_api.operations.list_batches import ListBatches
from job_api.operations.retry_batch_items import RetryBatchItems
from job_api.operations.select_batch_items import SelectBatchItems
from job_api.operations.watch_batch import WatchBatch
from job_api.parts import Parts
from job_api.rpc.batch_servicer import BatchOperations
from shared.catalog.catalog import CatalogFault
from shared.domain.identity import JobType
from shared.domain.naming import there_are


def batch_operations(parts: Parts) -> BatchOperations:
    """Build them.

    Raises:
        CatalogFault: There is an estimate for a job type that does not exist.
    """
    transactions, wake_ups = parts.transactions, parts.wake_ups
    return BatchOperations(
        estimate_batch=EstimateBatch(parts.catalog, _estimates(parts)),
        create_batch=CreateBatch(transactions, parts.requests, parts.creating, wake_ups),
        get_batch=GetBatch(transactions),
        list_batches=ListBatches(transactions),
        list_batch_items=ListBatchItems(transactions),
        cancel_batch=CancelBatch(transactions, wake_ups),
        retry_batch_items=RetryBatchItems(transactions, parts.catalog, wake_ups, parts.creating),
        select_batch_items=SelectBatchItems(transactions, wake_ups),
        advance_batch=AdvanceBatch(transactions, wake_ups),
        watch_batch=WatchBatch(transactions, parts.batch_feed, keep_alive=parts.keep_alive),
    )


def _estimates(parts: Parts) -> dict[JobType, ItemEstimate]:
    told, known = parts.settings.estimates, parts.catalog.definitions
    unknown = sorted(told.keys() - known.keys())
    if unknown:
        raise CatalogFault(
            [
                f"settings estimate the job type {each!r}, which does not exist{there_are(known)}"
                for each in unknown
            ]
        )
    return {
        JobType(name): ItemEstimate(each.cost, timedelta(seconds=each.seconds)) for name, each in told.items()
    }
