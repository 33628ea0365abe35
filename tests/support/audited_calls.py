"""One call of each method that changes something, with the audit records that its effects leave."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.identity import BatchId, JobId, Owner
from shared.gen.baton.v1 import batch_pb2
from shared.gen.baton.v1 import job_control_pb2 as pb
from tests.support import batches, storage
from tests.support.control_service import Control, bearing
from tests.support.selected_jobs import rows

SUBJECT = "backend"
ADA = Owner("ada")
FAILED = AttemptEnd(AttemptOutcome.FAILED, storage.FINAL)

Record: TypeAlias = tuple[str, str, str, str, str]
"""Subject, owner, action, aggregate or name, and outcome."""


@dataclass
class Stage:
    """A service, a backend that calls it for others, and what it called last."""

    control: Control
    called: list[tuple[str, Any]] = field(default_factory=list)

    async def call(self, method: str, request: Any) -> Any:
        self.called.append((method, request))
        sent = iter(request) if isinstance(request, list) else request
        return await getattr(self.control.stub, method)(sent, metadata=bearing(SUBJECT))

    async def call_again(self) -> None:
        await self.call(*self.called[-1])

    async def job(self, owner: Owner = ADA) -> JobId:
        """A job that nobody asked for, as far as audit knows."""
        return await storage.a_job(self.control.transactions, owner=owner)

    async def leased_job(self) -> JobId:
        job_id = await self.job()
        await storage.a_lease(self.control.transactions, job_id=job_id)
        return job_id

    async def failed_job(self) -> JobId:
        job_id = await self.job()
        lease = await storage.a_lease(self.control.transactions, job_id=job_id)
        await storage.end_attempt(self.control.transactions, lease.ref, FAILED)
        return job_id

    async def batch(self, *ends: AttemptEnd) -> BatchId:
        """A batch whose items have ended so, and one item more that waits if none has."""
        batch_id = await batches.a_batch(self.control.transactions, len(ends) or 2, owner=ADA)
        if ends:
            await batches.end(self.control.transactions, batch_id, dict(enumerate(ends, 1)))
        return batch_id


Effects: TypeAlias = Callable[[Stage], Awaitable[list[Record]]]


def told(action: str, aggregate_id: object, owner: str = ADA) -> Record:
    return (SUBJECT, owner, action, str(aggregate_id), "OK")


async def create_job(stage: Stage) -> list[Record]:
    request = pb.CreateJobRequest(job_type="synthetic", input=b"{}", owner=ADA, idempotency_key="order-0001")
    return [told("job.create", (await stage.call("CreateJob", request)).job.job_id)]


async def create_jobs(stage: Stage) -> list[Record]:
    wishes = [
        pb.CreateJobRequest(job_type="synthetic", input=b"{}", owner=owner, idempotency_key=key)
        for owner, key in (("ada", "order-0001"), ("bob", "order-0001"), ("ada", "order-0001"))
    ]
    wishes.append(pb.CreateJobRequest(job_type="no_such_type", input=b"{}"))
    made = (await stage.call("CreateJobs", pb.CreateJobsRequest(jobs=wishes))).outcomes
    return [
        told("job.create", each.created.job.job_id, owner)
        for each, owner in zip(made[:2], ("ada", "bob"), strict=True)
    ]


async def upload_input(stage: Stage) -> list[Record]:
    parts = [
        pb.UploadInputRequest(header=pb.UploadHeader(media_type="text/plain", owner=ADA)),
        pb.UploadInputRequest(chunk=b"text"),
    ]
    return [told("input.upload", (await stage.call("UploadInput", parts)).upload_id)]


async def cancel_job(stage: Stage) -> list[Record]:
    job_id = await stage.leased_job()
    await stage.call("CancelJob", pb.CancelJobRequest(job_id=str(job_id)))
    return [told("job.cancel", job_id)]


async def cancel_jobs(stage: Stage) -> list[Record]:
    jobs = {
        await stage.job(): "ada",
        await stage.leased_job(): "ada",
        await stage.job(Owner("bob")): "bob",
    }
    await stage.failed_job()
    await stage.call("CancelJobs", pb.CancelJobsRequest(filter=pb.JobFilter(job_type="synthetic")))
    return [told("job.cancel", job_id, owner) for job_id, owner in jobs.items()]


async def retry_job(stage: Stage) -> list[Record]:
    request = pb.RetryJobRequest(job_id=str(await stage.failed_job()), idempotency_key="once-more-1")
    return [told("job.retry", (await stage.call("RetryJob", request)).job.job_id)]


async def retry_jobs(stage: Stage) -> list[Record]:
    for _ in range(3):
        await stage.failed_job()
    await stage.call("RetryJobs", pb.RetryJobsRequest(filter=pb.JobFilter(job_type="synthetic")))
    again = await rows(stage.control, "select job_id from jobs where origin_job_id is not null")
    assert len(again) == 3
    return [told("job.retry", each.job_id) for each in again]


async def create_batch(stage: Stage) -> list[Record]:
    request = pb.CreateBatchRequest(
        job_type="synthetic", inputs=[b"{}"] * 3, owner=ADA, idempotency_key="batch-0001"
    )
    return [told("batch.create", (await stage.call("CreateBatch", request)).batch.batch_id)]


async def cancel_batch(stage: Stage) -> list[Record]:
    batch_id = await stage.batch()
    await batches.start(stage.control.transactions, batch_id, [1])
    await stage.call("CancelBatch", pb.CancelBatchRequest(batch_id=str(batch_id)))
    return [told("batch.cancel", batch_id)]


async def retry_batch_items(stage: Stage) -> list[Record]:
    batch_id = await stage.batch(FAILED, FAILED, batches.SUCCESS)
    await stage.call("RetryBatchItems", pb.RetryBatchItemsRequest(batch_id=str(batch_id)))
    return [told("batch.retry", batch_id)]


async def select_batch_items(stage: Stage) -> list[Record]:
    batch_id = await stage.batch(batches.SUCCESS, batches.SUCCESS)
    await stage.call("SelectBatchItems", pb.SelectBatchItemsRequest(batch_id=str(batch_id), items=[2]))
    return [told("batch.select", batch_id)]


async def advance_batch(stage: Stage) -> list[Record]:
    batch_id = await stage.batch(batches.SUCCESS)
    async with stage.control.transactions.begin() as transaction:
        assert await transaction.batch_changes.select(batch_id, [1])
    exported = batch_pb2.BATCH_STATE_EXPORTED
    await stage.call("AdvanceBatch", pb.AdvanceBatchRequest(batch_id=str(batch_id), state=exported))
    return [told("batch.advance", batch_id)]


async def pause(stage: Stage) -> list[Record]:
    await stage.call("Pause", pb.PauseRequest(job_type="synthetic"))
    await stage.call("Pause", pb.PauseRequest(queue="drill"))
    return [told("job_type.pause", "synthetic", SUBJECT), told("queue.pause", "drill", SUBJECT)]


async def resume(stage: Stage) -> list[Record]:
    records = await pause(stage)
    await stage.call("Resume", pb.ResumeRequest(job_type="synthetic"))
    await stage.call("Resume", pb.ResumeRequest(queue="drill"))
    return [*records, told("job_type.resume", "synthetic", SUBJECT), told("queue.resume", "drill", SUBJECT)]


async def resend_outbox_messages(stage: Stage) -> list[Record]:
    for _ in range(2):
        await stage.job()
    await rows(stage.control, "update outbox set state = 'dead' returning outbox_id")
    await stage.call("ResendOutboxMessages", pb.ResendOutboxMessagesRequest())
    return [told("outbox.resend", "", SUBJECT)]


EFFECTS: Mapping[str, Effects] = {
    "CreateJob": create_job,
    "CreateJobs": create_jobs,
    "UploadInput": upload_input,
    "CancelJob": cancel_job,
    "CancelJobs": cancel_jobs,
    "RetryJob": retry_job,
    "RetryJobs": retry_jobs,
    "CreateBatch": create_batch,
    "CancelBatch": cancel_batch,
    "RetryBatchItems": retry_batch_items,
    "SelectBatchItems": select_batch_items,
    "AdvanceBatch": advance_batch,
    "Pause": pause,
    "Resume": resume,
    "ResendOutboxMessages": resend_outbox_messages,
}
"""Every method that changes something for a caller."""
