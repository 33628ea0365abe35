"""How sessions begin, take leases, follow each other, and end."""

from __future__ import annotations

from uuid import UUID, uuid4

import grpc

from shared.gen.baton.v1 import execution_service_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from verification.conformance.services.check import Theme
from verification.conformance.services.session import (
    connected,
    require_ended_as_invalid,
    session,
    unknown_lease,
)
from verification.conformance.services.target import Target
from verification.peers import executor as peers
from verification.peers.executor import SYNTHETIC, ref
from verification.unmet import require

_GIVEN_BACK = job_pb2.ATTEMPT_OUTCOME_GIVEN_BACK
_WORK = {"items": 3, "note": "as it was asked for"}


def _hello(**fields: object) -> pb.OpenSessionRequest:
    told = {"executor_name": "conformance", "incarnation_id": str(uuid4()), "capabilities": [SYNTHETIC]}
    return pb.OpenSessionRequest(hello=pb.Hello(**{**told, **fields}))  # type: ignore[arg-type]


_NO_OUTPUT_VERSIONS = pb.Capability(job_type="synthetic", input_schema_versions=[1])
_NO_INPUT_VERSIONS = pb.Capability(job_type="synthetic", output_schema_versions=[1])
_VERSION_ZERO = pb.Capability(job_type="synthetic", input_schema_versions=[0], output_schema_versions=[1])
_BAD_TYPE = pb.Capability(job_type="Synthetic", input_schema_versions=[1], output_schema_versions=[1])
_MANY = list(range(1, 33))
_TOO_MANY = pb.Capability(job_type="synthetic", input_schema_versions=_MANY, output_schema_versions=_MANY)

_BAD_FIRST_FRAMES = (
    (pb.OpenSessionRequest(heartbeat_number=1), "hello"),
    (_hello(executor_name=""), "hello.executor_name"),
    (_hello(executor_name="n" * 101), "hello.executor_name"),
    (_hello(incarnation_id="none"), "hello.incarnation_id"),
    (_hello(runtime="r" * 101), "hello.runtime"),
    (_hello(capabilities=[]), "hello.capabilities"),
    (_hello(capabilities=[_BAD_TYPE]), "hello.capabilities[0].job_type"),
    (_hello(capabilities=[_NO_INPUT_VERSIONS]), "hello.capabilities[0].input_schema_versions"),
    (_hello(capabilities=[SYNTHETIC, _NO_OUTPUT_VERSIONS]), "hello.capabilities[1].output_schema_versions"),
    (_hello(capabilities=[_VERSION_ZERO]), "hello.capabilities[0].input_schema_versions"),
    (_hello(capabilities=[_TOO_MANY]), "hello.capabilities"),
    (_hello(held=[pb.LeaseRef(job_id="none", token="1.a")]), "hello.held[0].job_id"),
)

_GOOD = ref(unknown_lease())
_BAD_LATER_FRAMES = (
    (_hello(), "hello"),
    (pb.OpenSessionRequest(credits=[pb.Credit(queue="drill")]), "credits[0].count"),
    (pb.OpenSessionRequest(credits=[pb.Credit(queue="drill", count=10_001)]), "credits[0].count"),
    (pb.OpenSessionRequest(credits=[pb.Credit(count=1)]), "credits[0].queue"),
    (pb.OpenSessionRequest(heartbeats=[pb.Heartbeat()]), "heartbeats[0].lease.token"),
    (pb.OpenSessionRequest(heartbeats=[pb.Heartbeat(lease=_GOOD, progress=101)]), "heartbeats[0].progress"),
    (
        pb.OpenSessionRequest(heartbeats=[pb.Heartbeat(lease=_GOOD, progress_message="m" * 10_000)]),
        "heartbeats[0].progress_message",
    ),
    (pb.OpenSessionRequest(pieces=[pb.OutputPiece(lease=_GOOD, text="a")]), "pieces[0].number"),
    (pb.OpenSessionRequest(reports=[pb.Report()]), "reports[0].lease.token"),
    (pb.OpenSessionRequest(cancels_seen=[pb.LeaseRef(token="1.a")]), "cancels_seen[0].job_id"),
)


async def a_hello_is_welcomed_with_the_limits(target: Target) -> None:
    """The first answer is a welcome with the session's id and every limit."""
    async with session(target) as it:
        welcome = it.executor.welcome
        require(UUID(welcome.session_id), "the session has no id")
        limits = (welcome.frame_bytes_max, welcome.output_bytes_max, welcome.piece_bytes_max)
        require(all(limits), f"the limits are {limits}")
        require(welcome.progress_message_characters_max, "there is no limit of progress messages")
        require(not welcome.kept and not welcome.lost, "a new executor is told of leases")


async def a_bad_hello_is_refused_by_its_field(target: Target) -> None:
    """A first frame that is no hello, or has a field outside its range, is INVALID_INPUT, and names it."""
    for frame, field in _BAD_FIRST_FRAMES:
        async with connected(target) as executor:
            await executor.send_frame(frame)
            executor.listen()
            await require_ended_as_invalid(executor, field)


async def a_malformed_frame_is_refused_by_its_field(target: Target) -> None:
    """A later frame with a field outside its range ends the session as INVALID_INPUT, and names it."""
    for frame, field in _BAD_LATER_FRAMES:
        async with session(target) as it:
            await it.executor.send_frame(frame)
            await require_ended_as_invalid(it.executor, field)


async def a_lease_carries_what_its_executor_needs(target: Target) -> None:
    """A lease says which job it is about, with its input, its times and its limits."""
    job = await target.due_job(_WORK)
    async with session(target) as it:
        lease = await it.lease_of(job.job_id)
        said = (lease.job_type, lease.queue, lease.priority)
        require(said == ("synthetic", job.queue, 0), f"it says {said}")
        versions = (lease.input_schema_version, lease.output_schema_version)
        require(versions == (job.input_schema_version, job.output_schema_version), f"versions {versions}")
        require(lease.input == target.control.creation(_WORK).input, f"its input is {lease.input!r}")
        require(lease.input_bytes == len(lease.input), f"it says {lease.input_bytes} bytes of input")
        spans = (lease.time_left, lease.grace, lease.heartbeat_interval, lease.lease_duration)
        require(all(each.ToTimedelta() for each in spans), f"a span is missing: {spans}")
        require(
            lease.heartbeat_interval.ToTimedelta() < lease.lease_duration.ToTimedelta(),
            "heartbeats come no more often than leases end",
        )
        require(lease.output_bytes_max, "it has no limit of the output")
        require(not lease.HasField("last_error"), "a first attempt is told of an error")
        require(not lease.HasField("document"), "it is said to have a document")
        (attempt,) = await target.control.attempts(job.job_id)
        require(attempt.incarnation_id == it.executor.incarnation_id, "the attempt names another executor")
        require(attempt.outcome == job_pb2.ATTEMPT_OUTCOME_UNSPECIFIED, "a running attempt has an outcome")
        await it.succeed(lease)


async def nobody_gets_more_leases_than_credits(target: Target) -> None:
    """An executor with two credits gets two leases, whatever waits, and another with another credit."""
    jobs = [(await target.due_job()).job_id for _ in range(4)]
    async with session(target) as one, session(target) as other:
        await one.executor.credit(2)
        await one.granted(2, jobs)
        left = [each for each in jobs if each not in {lease.job_id for lease in one.executor.leases}]
        for job_id in left[:2]:  # these prove that the service has looked again
            await other.lease_of(job_id)
        require(len(one.executor.leases) == 2, f"it got {len(one.executor.leases)}")  # noqa: PLR2004
        more = (await target.due_job()).job_id
        await one.executor.credit(1)
        await one.granted(3, [more])


async def a_new_hello_replaces_the_session(target: Target) -> None:
    """A hello ends its incarnation's older stream as ABORTED, keeps what it names, gives back the rest."""
    kept_job, left_job = await target.due_job(), await target.due_job()
    async with session(target) as older:
        kept, left = await older.lease_of(kept_job.job_id), await older.lease_of(left_job.job_id)
        again = {"incarnation_id": older.executor.incarnation_id, "held": [kept, unknown_lease()]}
        async with session(target, **again) as newer:
            status = await older.executor.until_over()
            require(status is grpc.StatusCode.ABORTED, f"the older stream ended with {status.name}")
            welcome = newer.executor.welcome
            require(list(welcome.kept) == [ref(kept)], f"kept is {list(welcome.kept)}")
            require(list(welcome.lost) == [ref(unknown_lease())], f"lost is {list(welcome.lost)}")
            answer = await newer.succeed(left)
            require(answer.outcome == pb.REPORT_OUTCOME_LEASE_LOST, f"what it left gets {answer.outcome}")
            answer = await newer.succeed(kept)
            require(answer.outcome == pb.REPORT_OUTCOME_ACCEPTED, f"what it kept gets {answer.outcome}")
    await _require_given_back_for_nothing(target, left_job.job_id)


async def the_lease_of_another_executor_is_not_kept(target: Target) -> None:
    """A hello that names a lease of another incarnation is told that it has lost it; its holder has not."""
    job = await target.due_job()
    async with session(target) as holder:
        lease = await holder.lease_of(job.job_id)
        async with session(target, held=[lease]) as other:
            welcome = other.executor.welcome
            require(not welcome.kept, "the lease of another incarnation is kept")
            require(list(welcome.lost) == [ref(lease)], f"lost is {list(welcome.lost)}")
        answer = await holder.succeed(lease)
        require(answer.outcome == pb.REPORT_OUTCOME_ACCEPTED, f"its holder's result gets {answer.outcome}")


async def a_goodbye_gives_back_what_is_left(target: Target) -> None:
    """A goodbye ends the stream well; leases that are held go back and cost nothing."""
    job = await target.due_job()
    async with session(target) as it:
        lease = await it.lease_of(job.job_id)
        await it.beat(1, lease)
        await it.executor.goodbye()
        require(it.executor.status is grpc.StatusCode.OK, f"it ended with {it.executor.status}")
    async with session(target) as next_one:
        lease = await next_one.lease_of(job.job_id, attempt=2)
        await _require_given_back_for_nothing(target, job.job_id)
        await next_one.succeed(lease)


async def reports_beside_a_goodbye_are_answered(target: Target) -> None:
    """The service answers what was reported with or before a goodbye, then ends the stream."""
    job = await target.due_job()
    async with session(target) as it:
        lease = await it.lease_of(job.job_id)
        await it.executor.send(reports=[peers.success(lease)], goodbye=pb.Goodbye())
        await it.executor.half_close()
        await it.executor.until_over()
        outcomes = [each.outcome for each in it.executor.answers_of(ref(lease))]
        require(outcomes == [pb.REPORT_OUTCOME_ACCEPTED], f"the answers are {outcomes}")


async def the_end_of_a_stream_is_no_goodbye(target: Target) -> None:
    """A lease whose executor closes its stream without a goodbye is still its own when it comes again."""
    job = await target.due_job()
    async with session(target) as it:
        lease = await it.lease_of(job.job_id)
        await it.executor.half_close()
        await it.executor.until_over()
        again = {"incarnation_id": it.executor.incarnation_id, "held": [lease]}
    async with session(target, **again) as back:
        require(list(back.executor.welcome.kept) == [ref(lease)], "the lease is gone")
        await back.succeed(lease)


async def what_a_service_does_not_know_is_passed_over(target: Target) -> None:
    """A job type that the service does not know, and credits for such a queue, bring nothing and no error."""
    unknown = pb.Capability(job_type="not_yet_known", input_schema_versions=[1], output_schema_versions=[1])
    job = await target.due_job()
    async with session(target, capabilities=[unknown, SYNTHETIC]) as it:
        await it.executor.credit(5, queue="no-such-queue")
        lease = await it.lease_of(job.job_id)
        require(lease.job_type == "synthetic", f"a lease of {lease.job_type} came")
        await it.succeed(lease)


async def a_lease_goes_to_who_can_do_its_versions(target: Target) -> None:
    """An executor that knows other schema versions only gets nothing."""
    other = pb.Capability(job_type="synthetic", input_schema_versions=[99], output_schema_versions=[1])
    job = await target.due_job()
    async with session(target, capabilities=[other]) as wrong, session(target) as right:
        await wrong.executor.credit(5)
        await right.succeed(await right.lease_of(job.job_id))
        require(not wrong.executor.leases, "it got a lease of versions that it does not know")


async def _require_given_back_for_nothing(target: Target, job_id: str) -> None:
    first = (await target.control.attempts(job_id))[0]
    require(first.outcome == _GIVEN_BACK, f"the attempt ended with outcome {first.outcome}")
    job = await target.control.get(job_id)
    costs = (job.failure_count, job.loss_count)
    require(costs == (0, 0), f"it counts as {costs[0]} failures and {costs[1]} losses")


THEME = Theme(
    "sessions",
    (
        a_hello_is_welcomed_with_the_limits,
        a_bad_hello_is_refused_by_its_field,
        a_malformed_frame_is_refused_by_its_field,
        a_lease_carries_what_its_executor_needs,
        nobody_gets_more_leases_than_credits,
        a_new_hello_replaces_the_session,
        the_lease_of_another_executor_is_not_kept,
        a_goodbye_gives_back_what_is_left,
        reports_beside_a_goodbye_are_answered,
        the_end_of_a_stream_is_no_goodbye,
        what_a_service_does_not_know_is_passed_over,
        a_lease_goes_to_who_can_do_its_versions,
    ),
    executing=True,
)
