"""What a cancel does while no attempt runs."""

from __future__ import annotations

from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from verification.conformance.services.check import Theme
from verification.conformance.services.refusals import names_precondition, refused
from verification.conformance.services.target import Target
from verification.evidence.tables import LABEL
from verification.unmet import require

_CANCELLED = job_pb2.JOB_STATE_CANCELLED


async def a_waiting_job_is_cancelled_at_once(target: Target) -> None:
    """A job that waits is CANCELLED when the call returns, and every view says so."""
    made = await target.waiting_job()
    response = await target.control.call("CancelJob", pb.CancelJobRequest(job_id=made.job_id))
    job = response.job
    require(job.state == _CANCELLED, f"its state is {job.state}")
    require(job.HasField("finish_time"), "it has no finish time")
    require(not job.HasField("next_attempt_time"), "it still has a time for its next attempt")
    require(job.HasField("cancellation"), "it does not show its cancellation")
    require(job.cancellation.HasField("request_time"), "the cancellation has no request time")
    require(job.cancellation.HasField("stop_time"), "the cancellation has no stop time")
    require(not job.cancellation.HasField("seen_time"), "an executor is said to have seen it")
    require(not job.cancellation.forced, "it is marked as forced")
    require(await target.control.get(made.job_id) == job, "GetJob shows another job than CancelJob did")
    wanted = pb.JobFilter(labels={LABEL: target.run}, states=[_CANCELLED])
    page = await target.control.call("ListJobs", pb.ListJobsRequest(filter=wanted, page_size=1_000))
    require(made.job_id in {each.job_id for each in page.jobs}, "ListJobs does not show it as CANCELLED")
    kinds = [each.kind for each in await target.events_so_far(made.job_id)]
    wanted_kinds = [job_pb2.JOB_EVENT_KIND_CREATED, job_pb2.JOB_EVENT_KIND_CANCELLED]
    require(kinds == wanted_kinds, f"its events are {kinds}")
    require(not await target.control.attempts(made.job_id), "it has attempts")


async def a_cancelled_job_is_not_cancelled_again(target: Target) -> None:
    """A cancel of a CANCELLED job is JOB_ALREADY_CANCELLED, and changes nothing."""
    made = await target.waiting_job()
    before = await target.control.cancel(made.job_id)
    call = target.control.call("CancelJob", pb.CancelJobRequest(job_id=made.job_id))
    error = await refused(call, "JOB_ALREADY_CANCELLED")
    require(names_precondition(error), "PreconditionFailure does not name the reason")
    require(await target.control.get(made.job_id) == before, "the second cancel has changed the job")


THEME = Theme("cancelling", (a_waiting_job_is_cancelled_at_once, a_cancelled_job_is_not_cancelled_again))
