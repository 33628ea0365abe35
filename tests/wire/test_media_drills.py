"""The nine media job types run as drills, whichever executor serves them: by group, queue or type."""

from __future__ import annotations

from shared.catalog import media
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from tests.support.control_service import Control
from tests.support.execution_service import execution_running
from tests.support.executors import an_executor

JOB_TYPES = [each.job_type for each in media.DEFINITIONS]
SELECTION = {
    "serve_groups": ("image", "video"),
    "serve_queues": ("script_generate", "delivery_zip"),
    "serve_job_types": ("export_package", "media_verify"),
}


async def ended(control: Control, job_id: str) -> job_pb2.Job:
    """Watch a job to its end, and return it."""
    async for _ in control.watch(job_id):
        pass
    return await control.get(job_id)


async def test_one_job_of_each_media_type_runs_where_its_group_queue_or_type_is_served(
    control: Control, database_url: str, redis_url: str, redis_prefix: str
) -> None:
    async with (
        execution_running(database_url, redis_url, redis_prefix) as execution,
        an_executor(execution.address, **SELECTION),
    ):
        created = [await control.create(each, b'{"items": 2}') for each in JOB_TYPES]
        jobs = [await ended(control, each.job_id) for each in created]
        outputs = [
            (await control.stub.GetJobOutput(pb.GetJobOutputRequest(job_id=each.job_id))).output
            for each in jobs
        ]
    assert len(jobs) == 9
    assert {each.state for each in jobs} == {job_pb2.JOB_STATE_SUCCEEDED}
    assert [(each.job_type, each.queue) for each in jobs] == [(each, each) for each in JOB_TYPES]
    assert all(b'"items":2' in each for each in outputs)


async def test_media_types_are_listed_and_say_that_they_are_drills(control: Control) -> None:
    listed = (await control.stub.ListJobDefinitions(pb.ListJobDefinitionsRequest())).definitions
    found = {each.job_type: each for each in listed if each.domain == "media"}
    assert found.keys() == set(JOB_TYPES)
    for each in found.values():
        assert each.label.endswith("(drill)")
        assert each.description.startswith("A drill: ")
        assert (each.timeout.seconds, each.max_retries) == (120, 2)
