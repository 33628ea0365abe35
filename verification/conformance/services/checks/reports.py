"""What becomes of reports, and how they are answered."""

from __future__ import annotations

import hashlib
import json

import rfc8785

from shared.gen.baton.v1 import execution_service_pb2 as pb
from shared.gen.baton.v1 import job_control_pb2, job_pb2
from verification.conformance.services.check import Theme
from verification.conformance.services.refusals import refused
from verification.conformance.services.session import session, unknown_lease
from verification.conformance.services.target import NotJudged, Target
from verification.peers import executor as peers
from verification.peers.executor import ref
from verification.unmet import require

_ACCEPTED = pb.REPORT_OUTCOME_ACCEPTED
_REFUSED = pb.REPORT_OUTCOME_REFUSED
_RETRY = pb.REPORT_OUTCOME_RETRY_SCHEDULED
_TRIES_MAX = 4

_KIND = job_pb2.JobEventKind


async def a_result_is_committed_and_can_be_read_back(target: Target) -> None:
    """An accepted result makes the job SUCCEEDED at once, with its output, its hash and its events."""
    job = await target.due_job()
    output: dict[str, str | int] = {"items": 7, "attempt": 1, "padding": "xyz"}
    async with session(target) as it:
        answer = await it.succeed(await it.lease_of(job.job_id), output)
        require(answer.outcome == _ACCEPTED, f"the answer is {answer}")
    shown = await target.control.get(job.job_id)
    require(shown.state == job_pb2.JOB_STATE_SUCCEEDED, f"its state is {shown.state}")
    require((shown.progress, shown.attempt) == (100, 1), f"{shown.progress=}, {shown.attempt=}")
    require(shown.HasField("start_time") and shown.HasField("finish_time"), "it has no times")
    request = job_control_pb2.GetJobOutputRequest(job_id=job.job_id)
    stored = await target.control.call("GetJobOutput", request)
    require(json.loads(stored.output) == output, f"its output is {stored.output!r:.200}")
    wanted = hashlib.sha256(rfc8785.dumps({**output})).hexdigest()
    require(stored.output_hash == wanted == shown.output_hash, f"its hash is {stored.output_hash}")
    (attempt,) = await target.control.attempts(job.job_id)
    require(attempt.outcome == job_pb2.ATTEMPT_OUTCOME_SUCCEEDED, f"its attempt is {attempt.outcome}")
    await _require_events(target, job.job_id, ["CREATED", "STARTED", "SUCCEEDED"])


async def the_same_report_gets_the_same_answer(target: Target) -> None:
    """A report that comes again, at once, later, over a new session or without one, is answered alike."""
    job = await target.due_job()
    async with session(target) as it:
        lease = await it.lease_of(job.job_id)
        answers = await it.report(peers.success(lease), peers.success(lease))
        answers.append(await it.succeed(lease))
    async with session(target) as other:
        answers.append(await other.succeed(lease))
    request = pb.ReportResultRequest(lease=ref(lease), success=peers.success_of(lease))
    answers.append((await target.execute("ReportResult", request)).answer)
    outcomes = [each.outcome for each in answers]
    require(set(outcomes) == {_ACCEPTED}, f"the answers are {outcomes}")
    await _require_events(target, job.job_id, ["CREATED", "STARTED", "SUCCEEDED"])


async def a_different_second_report_is_refused(target: Target) -> None:
    """Another output, or a failure, under a lease that a result has ended is REFUSED with a reason."""
    job = await target.due_job()
    async with session(target) as it:
        lease = await it.lease_of(job.job_id)
        await it.succeed(lease)
        for answer in (await it.succeed(lease, {"items": 2, "attempt": 1}), await it.fail(lease)):
            require(answer.outcome == _REFUSED, f"the second report gets {answer.outcome}")
            require(answer.reason, "the refusal has no reason")
    request = job_control_pb2.GetJobOutputRequest(job_id=job.job_id)
    stored = await target.control.call("GetJobOutput", request)
    require(json.loads(stored.output)["items"] == 1, "the second output was stored")


async def a_failure_that_may_pass_is_tried_again(target: Target) -> None:
    """After a failure that may pass comes another attempt, which is told of it without what was internal."""
    job = await target.due_job()
    async with session(target) as it:
        first = await it.lease_of(job.job_id)
        answer = await it.fail(first, internal_message="at 10.0.0.1")
        require(answer.outcome == _RETRY, f"the failure gets {answer.outcome}")
        second = await it.lease_of(job.job_id, attempt=2)
        shown = await target.control.get(job.job_id)
        require(shown.state == job_pb2.JOB_STATE_RUNNING, f"its state is {shown.state}")
        require(
            shown.last_attempt_error.code == "PROVIDER_TIMEOUT", f"callers see {shown.last_attempt_error}"
        )
        require(second.token != first.token, "two leases have one token")
        error = second.last_error
        require((error.code, bool(error.message)) == ("PROVIDER_TIMEOUT", True), f"it is told of {error}")
        require(not error.internal_message, "it is told what was internal")
        await it.succeed(second)
    shown = await target.control.get(job.job_id)
    require((shown.failure_count, shown.loss_count) == (1, 0), f"{shown.failure_count=}, {shown.loss_count=}")
    kinds = ["CREATED", "STARTED", "ATTEMPT_ENDED", "RETRY_SCHEDULED", "STARTED", "SUCCEEDED"]
    await _require_events(target, job.job_id, kinds)


async def a_failure_for_good_ends_the_job(target: Target) -> None:
    """A failure that no retry can help, by its code or by its word, makes the job FAILED with its code."""
    for code, permanent in (("INPUT_BROKEN", False), ("PROVIDER_TIMEOUT", True)):
        job = await target.due_job()
        async with session(target) as it:
            lease = await it.lease_of(job.job_id)
            answer = await it.fail(lease, code, permanent=permanent)
            require(answer.outcome == _ACCEPTED, f"{code} gets {answer.outcome}")
        shown = await target.control.get(job.job_id)
        require(shown.state == job_pb2.JOB_STATE_FAILED, f"after {code} its state is {shown.state}")
        require(shown.error.code == code and shown.error.message, f"its error is {shown.error}")
        await _require_events(target, job.job_id, ["CREATED", "STARTED", "ATTEMPT_ENDED", "FAILED"])


async def a_time_out_counts_as_a_failure(target: Target) -> None:
    """An attempt that ran out of time is shown as timed out, and counts like one that failed."""
    job = await target.due_job()
    async with session(target) as it:
        answer = await it.fail(await it.lease_of(job.job_id), "TIMEOUT")
        require(answer.outcome in {_RETRY, _ACCEPTED}, f"it gets {answer.outcome}")
    first = (await target.control.attempts(job.job_id))[0]
    require(first.outcome == job_pb2.ATTEMPT_OUTCOME_TIMED_OUT, f"the attempt ended as {first.outcome}")
    require(first.error.code == "TIMEOUT", f"the attempt's error is {first.error}")
    shown = await target.control.get(job.job_id)
    require((shown.failure_count, shown.loss_count) == (1, 0), f"{shown.failure_count=}, {shown.loss_count=}")


async def the_tries_are_used_up(target: Target) -> None:
    """After as many retries as the job type allows, another failure makes the job FAILED."""
    request = job_control_pb2.ListJobDefinitionsRequest(page_size=1_000)
    page = await target.control.call("ListJobDefinitions", request)
    tries = next(each.max_retries for each in page.definitions if each.job_type == "synthetic") + 1
    if tries > _TRIES_MAX:
        raise NotJudged(f"synthetic jobs are tried {tries} times here, too often to wait for")
    job = await target.due_job()
    outcomes = []
    async with session(target) as it:
        for attempt in range(1, tries + 1):
            answer = await it.fail(await it.lease_of(job.job_id, attempt=attempt))
            outcomes.append(answer.outcome)
    require(outcomes == [_RETRY] * (tries - 1) + [_ACCEPTED], f"the answers are {outcomes}")
    shown = await target.control.get(job.job_id)
    require(shown.state == job_pb2.JOB_STATE_FAILED, f"its state is {shown.state}")
    require(shown.failure_count == tries, f"{shown.failure_count} failures are counted")


async def a_malformed_report_is_refused_by_itself(target: Target) -> None:
    """A report that can never be accepted is REFUSED; others in its frame and the session go on."""
    jobs = [await target.due_job(), await target.due_job()]
    async with session(target) as it:
        bad, good = [await it.lease_of(each.job_id) for each in jobs]
        refusal, accepted = await it.report(peers.failure(bad, "not a code"), peers.success(good))
        require(refusal.outcome == _REFUSED, f"the malformed one gets {refusal.outcome}")
        require(refusal.reason == "INVALID_INPUT", f"the reason is {refusal.reason!r}")
        require("code" in refusal.message, f"the message is {refusal.message!r}")
        require(accepted.outcome == _ACCEPTED, f"the other gets {accepted.outcome}")
        (nothing,) = await it.report(pb.Report(lease=ref(bad)))
        require(nothing.outcome == _REFUSED, f"a report of nothing gets {nothing.outcome}")
        answer = await it.succeed(bad)
        require(answer.outcome == _ACCEPTED, f"a good report afterwards gets {answer.outcome}")


async def reports_without_a_session_count(target: Target) -> None:
    """ReportResult and ReportFailure do what reports of a session do, and answer alike again."""
    jobs = [await target.due_job(), await target.due_job()]
    async with session(target) as it:
        first, second = [await it.lease_of(each.job_id) for each in jobs]
        result = pb.ReportResultRequest(lease=ref(first), success=peers.success_of(first))
        failed = pb.ReportFailureRequest(
            lease=ref(second), failure=peers.failure(second, "INPUT_BROKEN").failure
        )
        for method, request in (("ReportResult", result), ("ReportFailure", failed)) * 2:
            answer = (await target.execute(method, request)).answer
            require(answer.outcome == _ACCEPTED, f"{method} gets {answer.outcome}")
    states = [(await target.control.get(each.job_id)).state for each in jobs]
    require(states == [job_pb2.JOB_STATE_SUCCEEDED, job_pb2.JOB_STATE_FAILED], f"the states are {states}")


async def malformed_calls_without_a_session_are_refused(target: Target) -> None:
    """ReportResult and ReportFailure with a field outside its range are INVALID_INPUT, and name it."""
    lease = unknown_lease()
    result = pb.ReportResultRequest(lease=ref(lease), success=peers.success_of(lease, output_hash="x"))
    await refused(target.execute("ReportResult", result), "INVALID_INPUT", "success.output_hash")
    failed = pb.ReportFailureRequest(lease=ref(lease), failure=peers.failure(lease, "no code").failure)
    await refused(target.execute("ReportFailure", failed), "INVALID_INPUT", "failure.code")
    failed = pb.ReportFailureRequest(failure=peers.failure(lease).failure)
    await refused(target.execute("ReportFailure", failed), "INVALID_INPUT", "lease.token")


async def _require_events(target: Target, job_id: str, kinds: list[str]) -> None:
    events = await target.events_so_far(job_id)
    told = [_KIND.Name(each.kind).removeprefix("JOB_EVENT_KIND_") for each in events]
    require(told == kinds, f"its events are {told}, not {kinds}")
    numbers = [each.number for each in events]
    require(numbers == list(range(1, len(kinds) + 1)), f"its events have the numbers {numbers}")


THEME = Theme(
    "reports",
    (
        a_result_is_committed_and_can_be_read_back,
        the_same_report_gets_the_same_answer,
        a_different_second_report_is_refused,
        a_failure_that_may_pass_is_tried_again,
        a_failure_for_good_ends_the_job,
        a_time_out_counts_as_a_failure,
        the_tries_are_used_up,
        a_malformed_report_is_refused_by_itself,
        reports_without_a_session_count,
        malformed_calls_without_a_session_are_refused,
    ),
    executing=True,
)
