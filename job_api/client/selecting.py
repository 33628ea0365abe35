"""Calls about all jobs of a filter; see `asks`.

The next page of a call that changes jobs is about those that are left.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TypedDict

from job_api.client import convert
from job_api.client.asks import Listing, Page, listing, paged, require_known, timestamp
from job_api.client.views import JobView
from shared.domain.identity import BatchId
from shared.domain.jobs import JobState, Target
from shared.gen.baton.v1 import job_control_pb2 as pb


class JobFilter(TypedDict, total=False):
    """Which jobs: what is said must all fit; to change jobs, at least one thing must be said.

    Attributes:
        created_from: Created at or after; aware.
        created_to: Created before; aware.
        target: About this; its id may be empty for all of the type.
        labels: Having all of these.
        owner: Whose they are, where the caller may name others; an admin who names none means everyone's.
        text: Held by the target's id, the error's code or its message; 3 to 100 characters.
        batch_id: Items of this batch, also their earlier jobs.
    """

    states: Collection[JobState]
    job_type: str
    queue: str
    created_from: datetime | None
    created_to: datetime | None
    target: Target | None
    labels: Mapping[str, str]
    owner: str
    text: str
    batch_id: BatchId


def list_jobs(which: JobFilter, *, page_size: int) -> Listing[JobView]:
    request = pb.ListJobsRequest(filter=filter_message(which), page_size=page_size)
    return listing("ListJobs", request, "jobs", convert.job_view)


def cancel_jobs(which: JobFilter, *, dry_run: bool) -> Listing[int]:
    request = pb.CancelJobsRequest(filter=filter_message(which), dry_run=dry_run)
    return paged("CancelJobs", request, _counted)


def retry_jobs(which: JobFilter, *, dry_run: bool) -> Listing[int]:
    request = pb.RetryJobsRequest(filter=filter_message(which), dry_run=dry_run)
    return paged("RetryJobs", request, _counted)


def _counted(response: pb.CancelJobsResponse | pb.RetryJobsResponse) -> Page[int]:
    return Page([response.count], response.next_page_token)


def filter_message(which: JobFilter) -> pb.JobFilter:
    require_known(JobFilter, which)
    return pb.JobFilter(
        states=[convert.state_number(each) for each in which.get("states", ())],
        job_type=which.get("job_type", ""),
        queue=which.get("queue", ""),
        create_time_from=timestamp(which.get("created_from")),
        create_time_to=timestamp(which.get("created_to")),
        target=convert.target_message(which.get("target")),
        labels=which.get("labels"),
        owner=which.get("owner", ""),
        text=which.get("text", ""),
        batch_id=str(which.get("batch_id", "")),
    )
