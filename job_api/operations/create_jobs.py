"""Creates jobs, one or many, each with its own outcome."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import structlog

from job_api.operations.caller import Caller
from job_api.operations.job_request import CheckedJob, CreateJobCommand, JobRequests
from shared.domain.errors import BatonError, FieldViolation, IdempotencyKeyReused, InvalidInput
from shared.domain.identity import JobId, Owner, UploadId
from shared.domain.jobs import Job
from shared.storage.creation import NewJob
from shared.storage.idempotency import IdempotencyKey, KeyClaim
from shared.storage.transactions import Transaction, Transactions

log = structlog.get_logger(__name__)

_BYTES_ON_THE_LOOP_MAX = 64 * 1024
"""More input than this is checked in a thread, so that other calls go on meanwhile."""


@dataclass(frozen=True, slots=True)
class Creation:
    """The job of one wish; replayed if an earlier one with the same key created it."""

    job: Job
    replayed: bool


Wish = CreateJobCommand | BatonError
"""A wish, or why it is none: outcomes stand in the order of wishes, whatever became of each."""
Outcome = Creation | BatonError


@dataclass(frozen=True, slots=True)
class _Item:
    """A checked wish with the id that its job gets if there is none yet."""

    job_id: JobId
    checked: CheckedJob

    @property
    def key(self) -> IdempotencyKey | None:
        key = self.checked.command.key
        if key is None:
            return None
        return IdempotencyKey(self.checked.owner, self.checked.definition.job_type, key)


class _Faulty(Exception):
    """Items that can't be created by a fault of their own; the transaction is rolled back without them."""

    def __init__(self, faults: Mapping[int, BatonError]) -> None:
        super().__init__()
        self.faults = faults


class CreateJobs:
    """Makes job, input, key, event and dispatch durable together, or none of them.

    Items share a transaction and nothing else: one that fails by itself is left out, and the others are
    created all the same. A key decides races by its unique row: one caller binds it, all others find it.
    """

    def __init__(
        self,
        transactions: Transactions,
        requests: JobRequests,
        *,
        new_id: Callable[[], UUID],
        keys_kept_for: timedelta,
        wake_dispatcher: asyncio.Event,
    ) -> None:
        self._transactions = transactions
        self._requests = requests
        self._new_id = new_id
        self._keys_kept_for = keys_kept_for
        self._wake_dispatcher = wake_dispatcher

    async def __call__(self, caller: Caller, wishes: Sequence[Wish]) -> list[Outcome]:
        """Return an outcome for each wish, in their order.

        Raises:
            PlatformUnavailable: Jobs may or may not exist; calling again with the same keys tells.
        """
        outcomes: dict[int, Outcome] = {}
        checked = await self._checked(caller, wishes)
        items: dict[int, _Item] = {}
        for index, each in enumerate(checked):
            if isinstance(each, BatonError):
                outcomes[index] = each
            else:
                items[index] = _Item(JobId(self._new_id()), each)
        while items:  # each round but the last takes at least one item away
            try:
                outcomes |= await self._create(caller, items)
                break
            except _Faulty as error:
                outcomes |= error.faults
                items = {index: item for index, item in items.items() if index not in error.faults}
        self._tell(outcomes.values())
        return [outcomes[index] for index in range(len(wishes))]

    async def _checked(self, caller: Caller, wishes: Sequence[Wish]) -> list[CheckedJob | BatonError]:
        def check_all() -> list[CheckedJob | BatonError]:
            return [self._check(caller, each) for each in wishes]

        size = sum(len(each.input) for each in wishes if isinstance(each, CreateJobCommand))
        return await asyncio.to_thread(check_all) if size > _BYTES_ON_THE_LOOP_MAX else check_all()

    def _check(self, caller: Caller, wish: Wish) -> CheckedJob | BatonError:
        if isinstance(wish, BatonError):
            return wish
        try:
            return self._requests.check(wish, caller.acting_for(wish.owner))
        except BatonError as error:
            return error

    async def _create(self, caller: Caller, items: Mapping[int, _Item]) -> dict[int, Outcome]:
        async with self._transactions.begin() as transaction:
            bound = await self._bind(transaction, items)
            fresh = {index: item for index, item in items.items() if bound[index] == item.job_id}
            missing = await _missing_uploads(transaction, fresh)
            if missing:
                raise _Faulty(missing)
            await transaction.creation.create_jobs([_new_job(caller, item) for item in fresh.values()])
            jobs = await transaction.jobs.get_many(sorted(set(bound.values())))
        return {index: Creation(jobs[bound[index]], index not in fresh) for index in items}

    async def _bind(self, transaction: Transaction, items: Mapping[int, _Item]) -> dict[int, JobId]:
        """Return the job that each item stands for: its own, or the one that its key is bound to.

        Raises:
            _Faulty: Keys stand for other content.
        """
        claims = [
            KeyClaim(item.key, item.checked.fingerprint, item.job_id)
            for item in items.values()
            if item.key is not None
        ]
        bindings = await transaction.idempotency.claim(claims, kept_for=self._keys_kept_for)
        bound: dict[int, JobId] = {}
        reused: dict[int, BatonError] = {}
        for index, item in items.items():
            if item.key is None:
                bound[index] = item.job_id
                continue
            binding = bindings[item.key]
            bound[index] = binding.job_id
            if binding.fingerprint != item.checked.fingerprint:
                reused[index] = IdempotencyKeyReused(binding.job_id)
        if reused:
            raise _Faulty(reused)
        return bound

    def _tell(self, outcomes: Iterable[Outcome]) -> None:
        created = [each.job for each in outcomes if isinstance(each, Creation) and not each.replayed]
        for job in created:
            log.info("job.created", job_id=str(job.job_id), job_type=job.job_type, owner=job.owner)
        if created:
            self._wake_dispatcher.set()


async def _missing_uploads(transaction: Transaction, items: Mapping[int, _Item]) -> dict[int, BatonError]:
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
        index: InvalidInput(
            [FieldViolation(f"input.{item.checked.definition.upload_field}", "there is no such upload")]
        )
        for index, item in items.items()
        if item.checked.upload_id is not None and (item.checked.owner, item.checked.upload_id) not in present
    }


def _new_job(caller: Caller, item: _Item) -> NewJob:
    command, definition = item.checked.command, item.checked.definition
    overrides = command.overrides
    priority = definition.default_priority if overrides.priority is None else overrides.priority
    return NewJob(
        job_id=item.job_id,
        owner=item.checked.owner,
        created_by=caller.subject,
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


class CreateJob:
    """Creates a list of one."""

    def __init__(self, create_jobs: CreateJobs) -> None:
        self._create_jobs = create_jobs

    async def __call__(self, caller: Caller, command: CreateJobCommand) -> Creation:
        """Create the job, or find the one that an earlier call with the same key created.

        Raises:
            InvalidInput: The input does not fit, or refers to a document that is not there.
            UnknownJobType: No definition has that name.
            PayloadTooLarge: The input is over its limit.
            IdempotencyKeyReused: The key stands for different content.
            PermissionDenied: It is for another owner, and the caller may not act for others.
            PlatformUnavailable: The job may or may not exist; calling again with the same key tells.
        """
        (outcome,) = await self._create_jobs(caller, [command])
        if isinstance(outcome, BatonError):
            raise outcome
        return outcome
