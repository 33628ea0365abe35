"""Who walks through a list meets every job that was there and fits, once, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import pytest

from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.identity import JobId, Owner
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from shared.runtime.ids import new_id
from tests.support import storage
from tests.support.control_service import Control
from tests.support.storage import Session

ROUNDS = 20
"""While somebody walks, jobs are created and as many finish, a part in each round."""
AT_ONCE = 4
"""Fewer than a pool has connections: a busy machine is not to wait for more."""
LABELLED = {"course": "c1"}
SUCCEEDED = AttemptEnd(AttemptOutcome.SUCCEEDED)

OPEN = (job_pb2.JOB_STATE_QUEUED, job_pb2.JOB_STATE_RUNNING)


@dataclass(frozen=True, slots=True)
class Size:
    """So many jobs are there, and so many are created and finish in each round."""

    jobs: int
    part: int

    @property
    def changes(self) -> int:
        return self.part * ROUNDS


FULL, SMALL = Size(5_000, 50), Size(1_000, 10)


async def many_jobs(control: Control, size: Size) -> list[str]:
    """Create jobs, each fifth with a label, and return their ids."""
    job_ids = list[str]()
    for _ in range(size.jobs // 1_000):
        wishes = [
            pb.CreateJobRequest(job_type="synthetic", input=b"{}", labels=LABELLED if n % 5 == 0 else {})
            for n in range(1_000)
        ]
        response = await control.stub.CreateJobs(pb.CreateJobsRequest(jobs=wishes))
        job_ids += [each.created.job.job_id for each in response.outcomes]
    return job_ids


class Changes:
    """Creates jobs and finishes others, a round at a time, beside whoever asks for one."""

    def __init__(self, control: Control, session: Session, finishing: Sequence[str], *, part: int) -> None:
        self._control = control
        self._part = part
        self._session = session
        self._finishing = list(finishing)
        self._rounds = set[asyncio.Task[None]]()
        self._room = asyncio.Semaphore(AT_ONCE)

    def go_on(self) -> None:
        """Begin the next round, if there is one left."""
        if self._finishing:
            part, self._finishing = self._finishing[: self._part], self._finishing[self._part :]
            self._rounds |= {asyncio.create_task(self._create()), asyncio.create_task(self._finish(part))}

    async def done(self) -> None:
        assert not self._finishing
        await asyncio.gather(*self._rounds)

    async def _create(self) -> None:
        wish = pb.CreateJobRequest(job_type="synthetic", input=b"{}", labels=LABELLED)
        async with self._room:
            await self._control.stub.CreateJobs(pb.CreateJobsRequest(jobs=[wish] * self._part))

    async def _finish(self, job_ids: Sequence[str]) -> None:
        async with self._room:
            await finish(self._control, self._session, job_ids)


async def finish(control: Control, session: Session, job_ids: Sequence[str]) -> None:
    """Bring jobs to their end as a worker does: claimed by one transaction, and ended by another."""
    requests = [storage.claim_request(session, JobId(UUID(each))) for each in job_ids]
    leases = await storage.claim(control.transactions, *requests)
    assert len(leases) == len(job_ids)
    async with control.transactions.begin() as transaction:
        ends = [await storage.ending(transaction, each.ref, SUCCEEDED) for each in leases]
        await transaction.states.end_attempts(ends)


async def walked(control: Control, job_filter: pb.JobFilter, changes: Changes, *, size: int) -> list[str]:
    """The ids of all pages, read while rounds of changes go on, the first of which begins behind a page."""
    found, token = list[str](), ""
    while not found or token:
        request = pb.ListJobsRequest(filter=job_filter, page_size=size, page_token=token)
        page = await control.stub.ListJobs(request)
        found += [each.job_id for each in page.jobs]
        token = page.next_page_token
        changes.go_on()
    await changes.done()
    return found


@dataclass(frozen=True, slots=True)
class Walk:
    """A filter, the pages that all jobs would fill, which of the jobs it must show, and which it may."""

    job_filter: pb.JobFilter
    pages: int
    fitting: str
    possible: str = "all"


WALKS = {
    "all": Walk(pb.JobFilter(), 50, "all"),
    "a label": Walk(pb.JobFilter(labels=LABELLED), 125, "label", "label"),
    "a type and queue": Walk(pb.JobFilter(job_type="synthetic", queue="drill"), 33, "all"),
    "open": Walk(pb.JobFilter(states=OPEN), 50, "open"),
    "QUEUED": Walk(pb.JobFilter(states=[job_pb2.JOB_STATE_QUEUED]), 50, "open"),
    "SUCCEEDED": Walk(pb.JobFilter(states=[job_pb2.JOB_STATE_SUCCEEDED]), 250, "ended"),
    "open or SUCCEEDED": Walk(pb.JobFilter(states=[*OPEN, job_pb2.JOB_STATE_SUCCEEDED]), 50, "all"),
}


async def meets_each_once(control: Control, walk: Walk, size: Size) -> None:
    """Met are all that fit before the walk began and to its end, and others only that may have fitted."""
    there = await many_jobs(control, size)
    session = await storage.a_session(control.transactions)
    finished, finishing = there[1::10], random.Random(1).sample(there[3::5], size.changes)
    for begin in range(0, len(finished), size.part):
        await finish(control, session, finished[begin : begin + size.part])
    left = set(there) - set(finished) - set(finishing)
    fit = {"all": set(there), "label": set(there[::5]), "open": left, "ended": set(finished)}

    changes = Changes(control, session, finishing, part=size.part)
    found = await walked(control, walk.job_filter, changes, size=size.jobs // walk.pages)

    assert max(Counter(found).values()) == 1
    assert fit[walk.fitting] <= set(found) <= fit[walk.possible]


@pytest.mark.parametrize("name", WALKS)
async def test_none_is_passed_over_and_none_comes_twice(control: Control, name: str) -> None:
    await meets_each_once(control, WALKS[name], SMALL)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each, marks=[] if each in {"all", "open or SUCCEEDED"} else pytest.mark.prove)
        for each in WALKS
    ],
)
async def test_among_thousands_none_is_passed_over_and_none_comes_twice(control: Control, name: str) -> None:
    await meets_each_once(control, WALKS[name], FULL)


async def test_a_job_that_is_committed_late_moves_no_other(control: Control) -> None:
    """Its place is where its creation began; who has walked past that meets all others, once."""
    there = [(await control.create()).job_id for _ in range(20)]
    late = storage.new_job(job_id=JobId(new_id()), owner=Owner("local"))
    async with control.transactions.begin() as transaction:
        await transaction.creation.create_jobs([late])
        newer = [(await control.create()).job_id for _ in range(5)]
        first = await control.stub.ListJobs(pb.ListJobsRequest(page_size=10))
    rest = await control.stub.ListJobs(pb.ListJobsRequest(page_token=first.next_page_token))
    found = [each.job_id for page in (first, rest) for each in page.jobs]
    assert found == [*reversed(newer), *reversed(there)]
    anew = await control.stub.ListJobs(pb.ListJobsRequest())
    assert [each.job_id for each in anew.jobs].index(str(late.job_id)) == len(newer)
