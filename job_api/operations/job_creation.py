"""Makes checked wishes durable: job, input, key, event and dispatch of each together, in one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from job_api.operations.creating import Creating
from job_api.operations.job_request import CheckedJob
from job_api.operations.owner_quotas import Refusal
from shared.domain.audit import AuditAction
from shared.domain.errors import BatonError, FieldViolation, IdempotencyKeyReused, InvalidInput
from shared.domain.identity import JobId, Owner, UploadId
from shared.domain.jobs import Job
from shared.storage.creation import NewJob
from shared.storage.idempotency import Binding, IdempotencyKey, KeyClaim
from shared.storage.transactions import Transaction, Transactions


@dataclass(frozen=True, slots=True)
class Creation:
    """The job of one wish; replayed if an earlier one with the same key created it."""

    job: Job
    replayed: bool


Outcome = Creation | BatonError


@dataclass(frozen=True, slots=True)
class Item:
    """A checked wish with the id that its job gets if there is none yet, and the subject that called."""

    job_id: JobId
    created_by: str
    checked: CheckedJob

    @property
    def key(self) -> IdempotencyKey | None:
        checked = self.checked
        return IdempotencyKey.of(checked.owner, checked.definition.job_type, checked.command.key)

    @property
    def weight(self) -> int:
        """About how many bytes it keeps in memory."""
        return len(self.checked.command.input)


class Faulty(Exception):
    """Items can't be created by a fault of their own, by their places; nothing at all was written."""

    def __init__(self, faults: Mapping[int, BatonError]) -> None:
        super().__init__()
        self.faults = faults


class JobCreation:
    """Items share a transaction and nothing else, whoever they are from.

    A key decides races by its unique row: one item binds it, all others find it.
    """

    def __init__(self, transactions: Transactions, creating: Creating) -> None:
        self._transactions = transactions
        self._creating = creating

    async def __call__(self, items: Sequence[Item]) -> list[Outcome]:
        """Return an outcome for each item, in their order.

        Raises:
            Faulty: The others can be created without these items.
            PlatformUnavailable: Jobs may or may not exist; calling again with the same keys tells.
        """
        async with self._transactions.begin() as transaction:
            bindings = await self._bind(transaction, items)
            fresh = {each.job_id for each in items}.intersection(each.job_id for each in bindings)
            missing = await missing_uploads(
                transaction,
                {place: items[place] for place, each in enumerate(bindings) if each.job_id in fresh},
            )
            if missing:
                raise Faulty(missing)
            refused = await self._refused(transaction, [each for each in items if each.job_id in fresh])
            fresh -= refused.keys()
            new = [new_job(each) for each in items if each.job_id in fresh]
            made = await transaction.creation.create_jobs(new, action=AuditAction.JOB_CREATE)
            jobs = {each.job_id: each for each in made}
            earlier = {each.job_id for each in bindings if each.job_id is not None} - fresh - refused.keys()
            if earlier:
                jobs |= await transaction.jobs.get_many(sorted(earlier))
        if fresh:
            self._creating.wake_dispatcher.set()
        return [
            refused[binding.job_id] if binding.job_id in refused else _outcome(item, binding, jobs)
            for item, binding in zip(items, bindings, strict=True)
        ]

    async def _bind(self, transaction: Transaction, items: Sequence[Item]) -> list[Binding]:
        """Return what each item stands for: itself, or what its key is bound to."""
        claims = [
            KeyClaim(each.key, each.checked.fingerprint, each.job_id)
            for each in items
            if each.key is not None
        ]
        bindings = await transaction.idempotency.claim(claims, kept_for=self._creating.keys_kept_for)
        return [
            Binding(each.job_id, each.checked.fingerprint) if each.key is None else bindings[each.key]
            for each in items
        ]

    async def _refused(self, transaction: Transaction, items: Sequence[Item]) -> dict[JobId, Refusal]:
        """Say which new items are beyond their owners' limits; they leave their keys free."""
        owners = [each.checked.owner for each in items]
        refusals = (await self._creating.quotas.reserve(transaction, owners)).refusals
        refused = {
            item.job_id: refusal for item, refusal in zip(items, refusals, strict=True) if refusal is not None
        }
        keys = [each.key for each in items if each.key is not None and each.job_id in refused]
        await transaction.idempotency.release(keys)
        return refused


def _outcome(item: Item, binding: Binding, jobs: Mapping[JobId, Job]) -> Outcome:
    if binding.job_id is None or binding.fingerprint != item.checked.fingerprint:
        return IdempotencyKeyReused(binding.job_id, binding.batch_id)
    return Creation(jobs[binding.job_id], replayed=binding.job_id != item.job_id)


async def missing_uploads(transaction: Transaction, items: Mapping[int, Item]) -> dict[int, BatonError]:
    """Say which items refer to a document that their owner has not stored whole; keep the others' alive."""
    wanted: defaultdict[Owner, set[UploadId]] = defaultdict(set)
    for item in items.values():
        if item.checked.upload_id is not None:
            wanted[item.checked.owner].add(item.checked.upload_id)
    present = {
        (owner, upload_id)
        for owner in sorted(wanted)
        for upload_id in await transaction.uploads.lock_complete(owner, frozenset(wanted[owner]))
    }
    return {
        place: InvalidInput(
            [FieldViolation(f"input.{item.checked.definition.upload_field}", "there is no such upload")]
        )
        for place, item in items.items()
        if item.checked.upload_id is not None and (item.checked.owner, item.checked.upload_id) not in present
    }


def new_job(item: Item) -> NewJob:
    """Say what is to be made of a checked wish."""
    command, definition = item.checked.command, item.checked.definition
    overrides = command.overrides
    priority = definition.default_priority if overrides.priority is None else overrides.priority
    return NewJob(
        job_id=item.job_id,
        owner=item.checked.owner,
        created_by=item.created_by,
        job_type=definition.job_type,
        queue=definition.queue,
        stream=definition.stream_key(priority).name,
        priority=priority,
        input=command.input,
        input_schema_version=definition.input_schema_version,
        output_schema_version=definition.output_schema_version,
        credential_mode=overrides.credential_mode or definition.default_credential_mode,
        upload_id=item.checked.upload_id,
        target=command.target,
        labels=command.labels,
        run_time=command.run_time,
        start_by_time=command.start_by_time,
        start_by=definition.start_by,
        credential_id=overrides.credential_id,
        prompt_version=overrides.prompt_version,
        traceparent=command.traceparent,
    )
