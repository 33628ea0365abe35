"""A live view of many jobs; see `asks`."""

from __future__ import annotations

from job_api.client import convert
from job_api.client.selecting import JobFilter, filter_message
from job_api.client.views import JobChange, ViewBegan
from job_api.client.watching import Stream
from shared.gen.baton.v1 import job_control_pb2 as pb

STREAM_SECONDS_MAX = 3600.0
"""Each new stream makes its caller list anew, so rarely; keep-alives and pings find those that died."""


def watch_jobs(which: JobFilter) -> Stream[JobChange | ViewBegan]:
    request = pb.WatchJobsRequest(filter=filter_message(which))
    return Stream("WatchJobs", request, lambda _: request, _told, seconds_max=STREAM_SECONDS_MAX)


def _told(message: pb.WatchJobsResponse) -> JobChange | ViewBegan | None:
    match message.WhichOneof("update"):
        case "job":
            return JobChange(convert.job_view(message.job), message.left)
        case "began":
            return ViewBegan()
        case _:
            return None
