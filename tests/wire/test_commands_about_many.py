"""`baton retry`, and `baton cancel` for all jobs that fit, on a service that answers from memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from uuid import UUID

import pytest

from job_api.client import JobId, errors
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from tests.support.remembering_control import Service, remembering_control
from tests.support.scripted_control import JOB


@pytest.fixture
def service() -> Iterator[Service]:
    with remembering_control() as running:
        yield running


def test_retry_prints_the_id_of_the_new_job_and_nothing_else(service: Service) -> None:
    result = service.run("retry", JOB, "--key", "once-more-0001")

    assert (result.exit_code, result.stdout, result.stderr) == (0, f"{JOB}\n", "")
    assert service.servicer.retried == [pb.RetryJobRequest(job_id=JOB, idempotency_key="once-more-0001")]


def test_retry_tells_scripts_all_about_the_new_job(service: Service) -> None:
    result = service.run("retry", JOB, "--json")

    assert json.loads(result.stdout)["jobId"] == JOB
    assert len(service.servicer.retried[0].idempotency_key) == 32


def test_a_job_that_can_not_run_again_is_a_conflict(service: Service) -> None:
    service.servicer.refusal = errors.JobNotRetryable(JobId(UUID(JOB)), "it succeeded")
    result = service.run("retry", JOB)

    assert (result.exit_code, result.stdout) == (4, "")
    assert result.stderr == f"baton: job {JOB} can't be run again: it succeeded (JOB_NOT_RETRYABLE)\n"


def test_without_yes_jobs_that_fit_are_only_counted(service: Service) -> None:
    cancels = service.run("cancel", "--type", "synthetic", "--state", "queued", "--label", "night=bad")
    retries = service.run("retry", "--failed", "--queue", "drill", "--owner", "ada", "--text", "timeout")

    assert cancels.stdout == "4 jobs would be cancelled or asked to stop; --yes does it\n"
    assert retries.stdout == "1 job would be run again; --yes does it\n"
    first, rest, retry = service.servicer.selected
    job_filter = pb.JobFilter(
        job_type="synthetic", states=[job_pb2.JOB_STATE_QUEUED], labels={"night": "bad"}
    )
    assert first == pb.CancelJobsRequest(filter=job_filter, dry_run=True)
    assert rest == pb.CancelJobsRequest(filter=job_filter, dry_run=True, page_token="more")
    job_filter = pb.JobFilter(states=[job_pb2.JOB_STATE_FAILED], queue="drill", owner="ada", text="timeout")
    assert retry == pb.RetryJobsRequest(filter=job_filter, dry_run=True)


def test_with_yes_it_is_done_to_all_of_them(service: Service) -> None:
    cancels = service.run("cancel", "--type", "synthetic", "--yes")
    retries = service.run("retry", "--failed", "--cancelled", "--yes", "--json")

    assert cancels.stdout == "4 jobs cancelled or asked to stop\n"
    assert json.loads(retries.stdout) == {"count": 1, "dryRun": False}
    assert [each.dry_run for each in service.servicer.selected] == [False] * 3
    assert len(service.servicer.selected[2].filter.states) == 2


@pytest.mark.parametrize("command", ["cancel", "retry"])
@pytest.mark.parametrize("options", [[], [JOB, "--type", "synthetic"], ["--yes"]])
def test_either_a_job_is_named_or_jobs_are_described(
    service: Service, command: str, options: list[str]
) -> None:
    result = service.run(command, *options)

    assert (result.exit_code, result.stdout, service.servicer.selected) == (2, "", [])
    assert "name a job by its id, or say by options" in result.stderr
    assert result.stderr.endswith(": not both\n") is (JOB in options)
