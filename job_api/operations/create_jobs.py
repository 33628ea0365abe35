"""Creates jobs, one or many, each with its own outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import structlog

from job_api.operations.caller import Caller
from job_api.operations.creating import Creating
from job_api.operations.gathered_creations import GatheredCreations
from job_api.operations.job_creation import Creation, Item, JobCreation, Outcome
from job_api.operations.job_request import BYTES_ON_THE_LOOP_MAX, CheckedJob, CreateJobCommand, JobRequests
from shared.domain.errors import BatonError
from shared.domain.identity import JobId
from shared.storage.transactions import Transactions

log = structlog.get_logger(__name__)

Wish = CreateJobCommand | BatonError
"""A wish, or why it is none: outcomes stand in the order of wishes, whatever became of each."""


class CreateJobs:
    """Makes job, input, key, event and dispatch durable together, or none of them.

    One that fails by itself is left out, and the others are created all the same. What is created at the same
    time, by this call and others, shares a transaction (see `gathered_creations`).
    """

    def __init__(self, transactions: Transactions, requests: JobRequests, creating: Creating) -> None:
        self._requests = requests
        self._new_id = creating.new_id
        self._create = GatheredCreations(JobCreation(transactions, creating))

    async def __call__(self, caller: Caller, wishes: Sequence[Wish]) -> list[Outcome]:
        """Return an outcome for each wish, in their order.

        Raises:
            PlatformUnavailable: Jobs may or may not exist; calling again with the same keys tells.
        """
        checked = await self._checked(caller, wishes)
        items = [
            Item(JobId(self._new_id()), caller.subject, each)
            for each in checked
            if isinstance(each, CheckedJob)
        ]
        created = iter(await self._create(items))
        outcomes = [each if isinstance(each, BatonError) else next(created) for each in checked]
        _tell(outcomes)
        return outcomes

    async def _checked(self, caller: Caller, wishes: Sequence[Wish]) -> list[CheckedJob | BatonError]:
        def check_all() -> list[CheckedJob | BatonError]:
            return [self._check(caller, each) for each in wishes]

        size = sum(len(each.input) for each in wishes if isinstance(each, CreateJobCommand))
        return await asyncio.to_thread(check_all) if size > BYTES_ON_THE_LOOP_MAX else check_all()

    def _check(self, caller: Caller, wish: Wish) -> CheckedJob | BatonError:
        if isinstance(wish, BatonError):
            return wish
        try:
            return self._requests.check(wish, caller.acting_for(wish.owner))
        except BatonError as error:
            return error


def _tell(outcomes: Iterable[Outcome]) -> None:
    """Write the lines of a call where its own context is, which a shared transaction does not have."""
    for outcome in outcomes:
        if isinstance(outcome, Creation) and not outcome.replayed:
            job = outcome.job
            log.info("job.created", job_id=str(job.job_id), job_type=job.job_type, owner=job.owner)


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
            TooManyJobs: The owner has as many active jobs as allowed.
            QuotaExceeded: The owner's day or month is used up.
            PermissionDenied: It is for another owner, and the caller may not act for others.
            PlatformUnavailable: The job may or may not exist; calling again with the same key tells.
        """
        (outcome,) = await self._create_jobs(caller, [command])
        if isinstance(outcome, BatonError):
            raise outcome
        return outcome
