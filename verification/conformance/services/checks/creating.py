"""How jobs are created, one by one and together."""

from __future__ import annotations

from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from verification.conformance.services.check import Theme
from verification.conformance.services.refusals import refused
from verification.conformance.services.target import NEVER_DUE, Target
from verification.evidence.tables import LABEL
from verification.unmet import require

_JOBS_MAX = 1_000
_INPUT_BYTES_MAX = 1 << 20
_INVALID, _EXISTS = 3, 6
"""Numbers of gRPC's INVALID_ARGUMENT and ALREADY_EXISTS."""


async def a_new_job_is_as_it_was_asked_for(target: Target) -> None:
    """A new job is QUEUED with event 1, shows what was asked for, and reads back the same."""
    about = job_pb2.Target(type="document", id="chapter 9")
    labels = {LABEL: target.run, "kind": "drill"}
    request = target.waiting(target=about, labels=labels, overrides=pb.JobOverrides(priority=7))
    response = await target.control.call("CreateJob", request)
    job = response.job
    require(not response.replayed, "a new job is marked as a replay")
    require(job.state == job_pb2.JOB_STATE_QUEUED, f"its state is {job.state}")
    require((job.attempt, job.last_event_number) == (0, 1), f"{job.attempt=}, {job.last_event_number=}")
    require(job.job_type == "synthetic" and job.queue, f"{job.job_type=}, {job.queue=}")
    require(job.owner, "it has no owner")
    require(job.priority == 7, f"its priority is {job.priority}")  # noqa: PLR2004 - as asked for
    require(job.target == about, f"its target is {job.target}")
    require(dict(job.labels) == labels, f"its labels are {dict(job.labels)}")
    require(job.next_attempt_time == NEVER_DUE, f"its run time is {job.next_attempt_time}")
    require(job.HasField("create_time"), "it has no create time")
    require(not job.HasField("start_time") and not job.HasField("finish_time"), "it has started or ended")
    require(await target.control.get(job.job_id) == job, "GetJob shows another job than CreateJob did")
    (event, *others) = await target.events_so_far(job.job_id)
    created = job_pb2.JOB_EVENT_KIND_CREATED
    require((event.number, event.kind, others) == (1, created, []), f"its events are {[event, *others]}")


async def without_a_key_each_call_creates_a_job(target: Target) -> None:
    """The same request without a key makes a new job each time."""
    request = target.waiting()
    request.ClearField("idempotency_key")
    first, second = [await target.control.call("CreateJob", request) for _ in range(2)]
    require(first.job.job_id != second.job.job_id, "two calls without a key made one job")
    require(not second.replayed, "the second call without a key is marked as a replay")


async def values_at_the_edges_are_taken(target: Target) -> None:
    """A job whose every field is as long as it may be is taken, and shows it."""
    labels = {f"{number:0>2}" * 31: "v" * 200 for number in range(31)}
    job = await target.waiting_job(
        target=job_pb2.Target(type="t" * 64, id="é" * 200),
        overrides=pb.JobOverrides(priority=100, credential_id="c" * 64, prompt_version="p" * 64),
        labels={LABEL: target.run, **labels},
        idempotency_key=target.run + "~" * (128 - len(target.run)),
    )
    shown = await target.control.get(job.job_id)
    require(dict(shown.labels) == {LABEL: target.run, **labels}, "its labels are not those that were sent")
    require(shown.target == job_pb2.Target(type="t" * 64, id="é" * 200), f"its target is {shown.target}")


async def an_input_of_one_mebibyte_is_taken(target: Target) -> None:
    """An input of exactly 1 MiB is taken, a byte more is PAYLOAD_TOO_LARGE."""
    fits = _input_of(_INPUT_BYTES_MAX)
    await target.waiting_job(input=fits)
    beyond = target.waiting(input=_input_of(_INPUT_BYTES_MAX + 1))
    await refused(target.control.call("CreateJob", beyond), "PAYLOAD_TOO_LARGE")


async def jobs_created_together_have_outcomes_of_their_own(target: Target) -> None:
    """One call for many jobs answers each in order: created, replayed, or with the error that is its own."""
    good, other, bad_key = target.waiting(), target.waiting(), target.waiting(idempotency_key="short")
    unknown = target.waiting(job_type="no_such_type")
    reused = target.waiting(idempotency_key=good.idempotency_key, input=b'{"items": 2}')
    request = pb.CreateJobsRequest(jobs=[good, unknown, good, bad_key, reused, other])
    outcomes = (await target.control.call("CreateJobs", request)).outcomes
    kinds = [each.WhichOneof("outcome") for each in outcomes]
    require(kinds == ["created", "error", "created", "error", "error", "created"], f"outcomes are {kinds}")
    first, again, last = (outcomes[place].created for place in (0, 2, 5))
    require(not first.replayed and again.replayed and not last.replayed, "the wrong ones are replays")
    require(first.job.job_id == again.job.job_id, "the same key twice made two jobs")
    errors = [outcomes[place].error for place in (1, 3, 4)]
    said = [(each.status_code, each.reason) for each in errors]
    wanted = [
        (_INVALID, "UNKNOWN_JOB_TYPE"),
        (_INVALID, "INVALID_INPUT"),
        (_EXISTS, "IDEMPOTENCY_KEY_REUSED"),
    ]
    require(said == wanted, f"the errors are {said}")
    require(errors[1].field == "idempotency_key", f"the field at fault is {errors[1].field!r}")
    require(errors[2].job_id == first.job.job_id, f"the key stands for {errors[2].job_id!r}")


async def a_call_for_no_or_too_many_jobs_is_refused(target: Target) -> None:
    """A call for no jobs or for more than a thousand is INVALID_INPUT and creates none."""
    too_many = [target.waiting() for _ in range(_JOBS_MAX + 1)]
    for jobs in ([], too_many):
        call = target.control.call("CreateJobs", pb.CreateJobsRequest(jobs=jobs))
        await refused(call, "INVALID_INPUT", "jobs", when=f"{len(jobs)} jobs")


def _input_of(size: int) -> bytes:
    return b'{"items": 1}'.ljust(size)


THEME = Theme(
    "creating",
    (
        a_new_job_is_as_it_was_asked_for,
        without_a_key_each_call_creates_a_job,
        values_at_the_edges_are_taken,
        an_input_of_one_mebibyte_is_taken,
        jobs_created_together_have_outcomes_of_their_own,
        a_call_for_no_or_too_many_jobs_is_refused,
    ),
)
