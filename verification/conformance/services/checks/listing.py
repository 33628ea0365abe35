"""Lists and their pages."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from verification.conformance.services.check import Theme
from verification.conformance.services.refusals import fields_of, refused, require_well_formed
from verification.conformance.services.target import NEVER_DUE, Target
from verification.evidence.tables import LABEL
from verification.peers.control import Refused
from verification.unmet import require

_MARK = "mark"
_PAGES_MAX = 50

_BAD_FILTERS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"states": [99]}, "filter.states"),
    ({"job_type": "a" * 1_000}, "filter.job_type"),
    ({"create_time_from": Timestamp(seconds=2**62)}, "filter.create_time_from"),
    ({"create_time_to": Timestamp(nanos=-1)}, "filter.create_time_to"),
    ({"target": job_pb2.Target(id="i")}, "filter.target.type"),
    ({"text": "ab"}, "filter.text"),
    ({"text": "a" * 101}, "filter.text"),
    ({"labels": {"k": "v" * 201}}, "filter.labels"),
)


async def jobs_come_newest_first_and_pages_do_not_shift(target: Target) -> None:
    """Pages hold all jobs once, newest first, without artifacts, also when jobs are created meanwhile."""
    made = [(await _marked(target, "pages")).job_id for _ in range(5)]
    wanted = pb.JobFilter(labels={LABEL: target.run, _MARK: "pages"})
    found, token = [], ""
    for _ in range(_PAGES_MAX):
        page = await _list(target, filter=wanted, page_size=2, page_token=token)
        require(len(page.jobs) <= 2, f"a page of 2 holds {len(page.jobs)} jobs")  # noqa: PLR2004
        found += [each.job_id for each in page.jobs]
        token = page.next_page_token
        if not token:
            break
        await _marked(target, "pages")
    require(found == made[::-1], f"the pages hold {found}, and {made[::-1]} were there")


async def a_page_token_belongs_to_its_filter(target: Target) -> None:
    """A token that is malformed, changed, or of another filter is INVALID_PAGE_TOKEN."""
    job = await _marked(target, "token")
    await _marked(target, "token")
    mine = pb.JobFilter(labels={LABEL: target.run, _MARK: "token"})
    other = pb.JobFilter(labels={LABEL: target.run})
    token = (await _list(target, filter=mine, page_size=1)).next_page_token
    require(token, "the first of two pages has no token")
    for wanted, bad in ((other, token), (mine, "nonsense"), (mine, token[:-4]), (mine, token + "AAAA")):
        call = _list(target, filter=wanted, page_size=1, page_token=bad)
        await refused(call, "INVALID_PAGE_TOKEN", "page_token", when=f"token {bad:.40}")
    elsewhere: tuple[tuple[str, Message], ...] = (
        ("ListAttempts", pb.ListAttemptsRequest(job_id=job.job_id, page_token=token)),
        ("ListArtifacts", pb.ListArtifactsRequest(job_id=job.job_id, page_token=token)),
    )
    for method, request in elsewhere:
        await refused(target.control.call(method, request), "INVALID_PAGE_TOKEN", when=method)


async def a_page_size_out_of_range_is_refused(target: Target) -> None:
    """A page size that is negative or over 1,000 is INVALID_INPUT."""
    job_id = (await target.waiting_job()).job_id
    lists: tuple[tuple[str, Callable[[int], Message]], ...] = (
        ("ListJobs", lambda size: pb.ListJobsRequest(page_size=size)),
        ("ListAttempts", lambda size: pb.ListAttemptsRequest(job_id=job_id, page_size=size)),
        ("ListArtifacts", lambda size: pb.ListArtifactsRequest(job_id=job_id, page_size=size)),
        ("ListJobDefinitions", lambda size: pb.ListJobDefinitionsRequest(page_size=size)),
    )
    for method, request in lists:
        for size in (-1, 1_001):
            call = target.control.call(method, request(size))
            await refused(call, "INVALID_INPUT", "page_size", when=f"{method} with {size}")


async def a_list_is_narrowed_by_every_field(target: Target) -> None:
    """Each field of a filter lets through the jobs that fit it and no others."""
    about = job_pb2.Target(type="conformance", id=f"of {target.run}")
    plain = await _marked(target, "narrow")
    aimed = await _marked(target, "narrow", target=about)
    ended = await _marked(target, "narrow")
    await target.control.cancel(ended.job_id)
    everyone = {plain.job_id, aimed.job_id, ended.job_id}
    cases: tuple[tuple[dict[str, Any], set[str]], ...] = (
        ({}, everyone),
        ({"states": [job_pb2.JOB_STATE_CANCELLED]}, {ended.job_id}),
        ({"states": [job_pb2.JOB_STATE_QUEUED]}, {plain.job_id, aimed.job_id}),
        ({"job_type": "synthetic", "queue": plain.queue}, everyone),
        ({"job_type": "no_such_type"}, set()),
        ({"queue": "no-such-queue"}, set()),
        ({"target": about}, {aimed.job_id}),
        ({"target": job_pb2.Target(type="conformance")}, {aimed.job_id}),
        ({"text": target.run[:20]}, {aimed.job_id}),
        ({"create_time_from": aimed.create_time}, {aimed.job_id, ended.job_id}),
        ({"create_time_to": aimed.create_time}, {plain.job_id}),
        ({"create_time_from": NEVER_DUE}, set()),
        ({"labels": {LABEL: target.run, _MARK: "other"}}, set()),
    )
    for fields, wanted in cases:
        labels = {"labels": {LABEL: target.run, _MARK: "narrow"}}
        page = await _list(target, filter=pb.JobFilter(**{**labels, **fields}), page_size=1_000)
        found = {each.job_id for each in page.jobs}
        require(found == wanted, f"{fields} lets through {len(found)} jobs, not {len(wanted)}")


async def a_bad_filter_is_refused_by_its_path(target: Target) -> None:
    """A filter with a field outside its range is INVALID_INPUT, and `BadRequest` names the field."""
    for fields, path in _BAD_FILTERS:
        error = await refused(_list(target, filter=pb.JobFilter(**fields)), "INVALID_INPUT", when=path)
        named = fields_of(error)
        require(any(each.startswith(path) for each in named), f"BadRequest names {named}, not {path}")


async def another_owners_jobs_need_a_scope(target: Target) -> None:
    """A list of another owner's jobs is empty for who may see all, and PERMISSION_DENIED for the others."""
    try:
        page = await _list(target, filter=pb.JobFilter(owner=f"nobody {target.run}"))
    except Refused as error:
        require_well_formed(error)
        require(error.reason == "PERMISSION_DENIED", f"it is refused with {error}")
    else:
        require(not page.jobs, "it shows jobs that are not of that owner")


async def job_types_are_listed_by_name_with_their_schemas(target: Target) -> None:
    """Job types come by name, in pages, each with a JSON Schema of its input and output."""
    found: list[job_pb2.JobDefinition] = []
    token = ""
    for _ in range(_PAGES_MAX):
        request = pb.ListJobDefinitionsRequest(page_size=1, page_token=token)
        page = await target.control.call("ListJobDefinitions", request)
        found += page.definitions
        token = page.next_page_token
        if not token:
            break
    names = [each.job_type for each in found]
    require(names == sorted(set(names)), f"they come as {names}")
    require("synthetic" in names, f"there is no synthetic among {names}")
    for each in found:
        require(
            each.queue and each.input_schema_version and each.output_schema_version, f"of {each.job_type}"
        )
        for schema in (each.input_schema, each.output_schema):
            require(isinstance(json.loads(schema), dict), f"{each.job_type} has a schema that is none")


async def what_a_waiting_job_has_not_is_empty(target: Target) -> None:
    """A job that has not begun has no attempts, no artifacts and no output, and says so without an error."""
    job_id = (await target.waiting_job()).job_id
    require(not await target.control.attempts(job_id), "it has attempts")
    artifacts = await target.control.call("ListArtifacts", pb.ListArtifactsRequest(job_id=job_id))
    require(not artifacts.artifacts and not artifacts.next_page_token, "it has artifacts")
    output = await target.control.call("GetJobOutput", pb.GetJobOutputRequest(job_id=job_id))
    require(not output.output and not output.output_hash, "it has an output")


async def _marked(where: Target, mark: str, **fields: Any) -> job_pb2.Job:
    return await where.waiting_job(labels={LABEL: where.run, _MARK: mark}, **fields)


async def _list(target: Target, **fields: Any) -> pb.ListJobsResponse:
    response: pb.ListJobsResponse = await target.control.call("ListJobs", pb.ListJobsRequest(**fields))
    return response


THEME = Theme(
    "listing",
    (
        jobs_come_newest_first_and_pages_do_not_shift,
        a_page_token_belongs_to_its_filter,
        a_page_size_out_of_range_is_refused,
        a_list_is_narrowed_by_every_field,
        a_bad_filter_is_refused_by_its_path,
        another_owners_jobs_need_a_scope,
        job_types_are_listed_by_name_with_their_schemas,
        what_a_waiting_job_has_not_is_empty,
    ),
)
