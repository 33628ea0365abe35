"""`baton list`, on a service that answers from memory."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from job_api.client.convert import job_view
from job_api.command import show
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from tests.support.remembering_control import OTHER, Service, remembering_control
from tests.support.scripted_control import JOB, a_job


@pytest.fixture
def service() -> Iterator[Service]:
    with remembering_control() as running:
        yield running


def test_list_asks_for_the_jobs_of_a_batch(service: Service) -> None:
    service.run("list", "--batch", OTHER, "--state", "failed")

    assert service.servicer.listed[0].filter == pb.JobFilter(
        batch_id=OTHER, states=[job_pb2.JOB_STATE_FAILED]
    )


def test_list_asks_for_what_its_options_say(service: Service) -> None:
    service.run(
        *("list", "--type", "synthetic", "--queue", "drill", "--owner", "ada", "--text", "INPUT_"),
        *("--label", "a=1", "--label", "b=2"),
    )

    assert service.servicer.listed[0].filter == pb.JobFilter(
        job_type="synthetic", queue="drill", owner="ada", text="INPUT_", labels={"a": "1", "b": "2"}
    )


def test_list_asks_for_no_more_than_its_limit(service: Service) -> None:
    result = service.run("list", "--state", "queued", "--type", "synthetic", "--limit", "3", "--json")

    assert len(json.loads(result.stdout)) == 3
    first, second = service.servicer.listed
    assert (first.page_size, first.filter.job_type, list(first.filter.states)) == (4, "synthetic", [1])
    assert (first.page_token, second.page_token) == ("", "more")
    assert "there are more jobs than these 3" in result.stderr


def test_list_shows_a_table_to_people(service: Service) -> None:
    header, row, *_ = service.run("list").stdout.splitlines()

    assert header.split() == ["job", "type", "state", "progress", "attempt", "created", "error"]
    assert row.split()[:3] == [JOB, "synthetic", "QUEUED"]


def test_owners_are_shown_where_there_are_several(capsys: pytest.CaptureFixture[str]) -> None:
    jobs = [job_view(a_job(owner=owner)) for owner in ("ada", "bob")]
    show.jobs(jobs)
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[-2:] == ["owner", "error"]
    assert [row.split()[-1] for row in rows] == ["ada", "bob"]

    show.jobs(jobs[:1])
    assert "owner" not in capsys.readouterr().out
