"""A filter lets the same jobs through in memory as in SQL."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest

from job_api.operations.job_filters import JobFilter
from job_api.operations.job_matching import LETS_THROUGH, JobMatch
from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.identity import JobType, Owner, QueueName
from shared.domain.jobs import Job, JobError, JobState, Target
from shared.storage.transactions import Transactions
from tests.support import storage

FILTERS = 400
JOBS = 60
WORDS = ("abc", "ABC", "a_c", "a%c", "a/c", "a\\c", "xabcx", "ä", "Äbc", "ßabc", "Σας", "İab")
OWNERS, TYPES, QUEUES = ("ada", "Ada"), ("synthetic", "document_import"), ("drill", "import")
LABELS: Sequence[dict[str, str]] = ({}, {"a": "1"}, {"a": "1", "b": "2"}, {"a": "2"}, {"b": ""})


def test_every_field_of_a_filter_is_heeded() -> None:
    assert {each.name for each in fields(JobFilter)} == set(LETS_THROUGH)


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_filters_let_through_in_memory_what_they_let_through_in_the_database(
    database_url: str, seed: int
) -> None:
    dice = random.Random(seed)
    through = 0
    async with storage.opened(database_url) as transactions:
        jobs = await some_jobs(transactions, dice)
        for _ in range(FILTERS):
            job_filter = a_filter(dice, jobs)
            async with transactions.begin() as transaction:
                listed = await transaction.jobs.page(job_filter, after=None, limit=JOBS)
            match = JobMatch(job_filter)
            assert {each.job_id for each in listed} == {each.job_id for each in jobs if match.fits(each)}, (
                job_filter
            )
            through += bool(listed)
    assert through > FILTERS / 5


async def some_jobs(transactions: Transactions, dice: random.Random) -> Sequence[Job]:
    """Jobs in all states, alike in some things and different in others."""
    for _ in range(JOBS):
        target = dice.choice([None, Target(dice.choice(("course", "file")), dice.choice(WORDS))])
        job_id = await storage.a_job(
            transactions,
            owner=Owner(dice.choice(OWNERS)),
            job_type=JobType(dice.choice(TYPES)),
            queue=QueueName(dice.choice(QUEUES)),
            labels=dice.choice(LABELS),
            target=target,
        )
        if dice.random() < 0.3:
            continue
        lease = await storage.a_lease(transactions, job_id=job_id)
        error = JobError(dice.choice(("INPUT_BROKEN", "PROVIDER_LATE")), dice.choice(WORDS), "inside")
        outcome = dice.choice([None, AttemptOutcome.SUCCEEDED, AttemptOutcome.FAILED])
        if outcome is not None:
            failed = outcome is AttemptOutcome.FAILED
            await storage.end_attempt(transactions, lease.ref, AttemptEnd(outcome, error if failed else None))
    async with transactions.begin() as transaction:
        return await transaction.jobs.page(JobFilter(), after=None, limit=JOBS)


def a_filter(dice: random.Random, jobs: Sequence[Job]) -> JobFilter:
    """A filter by a few things, most of which some job has."""
    moment = dice.choice(jobs).create_time + dice.choice([-1, 0, 1]) * timedelta(microseconds=1)
    wanted: dict[str, Any] = {
        "owner": Owner(dice.choice(OWNERS)),
        "states": frozenset(dice.sample(list(JobState), dice.randint(1, 3))),
        "job_type": JobType(dice.choice(TYPES)),
        "queue": QueueName(dice.choice(QUEUES)),
        "created_from": moment,
        "created_to": moment,
        "target_type": dice.choice(("course", "file", "none")),
        "target_id": dice.choice(WORDS),
        "labels": dice.choice(LABELS) or None,
        "text": dice.choice((*WORDS, "broken", "provider_", "C", "bc")),
    }
    names = dice.sample(sorted(wanted), dice.randint(1, 3))
    return JobFilter(**{name: wanted[name] for name in names})
