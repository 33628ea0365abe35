"""`baton get` as people and scripts use it, beyond what all commands have in common."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from shared.gen.baton.v1 import job_pb2
from tests.support.remembering_control import Service, remembering_control
from tests.support.scripted_control import JOB, a_job


@pytest.fixture
def service() -> Iterator[Service]:
    with remembering_control() as running:
        yield running


def test_get_shows_attempts_and_where_the_time_has_gone(service: Service) -> None:
    service.servicer.job = a_job(state=job_pb2.JOB_STATE_RUNNING, attempt=2)
    began = Timestamp(seconds=1_900_000_000)
    service.servicer.attempts = [
        job_pb2.Attempt(
            number=1, executor_name="red", start_time=began, outcome=job_pb2.ATTEMPT_OUTCOME_LOST
        ),
        job_pb2.Attempt(number=2, executor_name="blue", start_time=began),
    ]
    service.servicer.timings = job_pb2.JobTimings(
        waiting=Duration(nanos=240_000_000),
        running=Duration(seconds=3_900),
        between_attempts=Duration(seconds=1_000_000),
        total=Duration(seconds=1_003_900, nanos=240_000_000),
    )
    lines = service.run("get", JOB).stdout.splitlines()

    told = (
        "time       waited 0.2 s, ran 1:05:00 in 2 attempts, 11 days, 13:46:40 between attempts:"
        " 11 days, 14:51:40 in all"
    )
    assert told in lines
    assert [line.split()[:3] for line in lines[-2:]] == [["1", "lost", "red"], ["2", "running", "blue"]]
    document = json.loads(service.run("get", JOB, "--json").stdout)
    assert [each["executorName"] for each in document["attempts"]] == ["red", "blue"]
    assert document["timings"] == {
        "waiting": "0.24s",
        "running": "3900s",
        "betweenAttempts": "1000000s",
        "total": "1003900.24s",
    }
