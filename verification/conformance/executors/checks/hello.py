"""How an executor introduces itself, and how it comes back."""

from __future__ import annotations

import time
from uuid import UUID

import grpc

from shared.gen.baton.v1 import execution_service_pb2 as pb
from verification.conformance.executors.bench import Bench, a_synthetic
from verification.conformance.executors.check import Check
from verification.unmet import Unmet, require

_REFUSALS = 8
_REFUSED_SECONDS_MIN = 0.24
"""So many attempts without any pause take less, with any backoff far more."""
_SILENCE_SECONDS = 0.5
_UNKNOWN_FIELD = b"\xc2\x3e\x03new"
"""Field 1000, which no message has yet: three bytes."""
_VERSION = 1
_NAME_CHARACTERS_MAX = 100
_RUNTIME_CHARACTERS_MAX = 100
_PAIRS_MAX = 1_000
_CREDIT_COUNT_MAX = 10_000


async def keeps_trying_while_the_service_is_unavailable(bench: Bench) -> None:
    """A hello that is answered UNAVAILABLE is said again, after pauses, until there is a welcome."""
    refused = await bench.start()
    began = time.monotonic()
    for _ in range(_REFUSALS):
        refused.finish(grpc.StatusCode.UNAVAILABLE)
        refused = await bench.next_session()
    took = time.monotonic() - began
    require(took >= _REFUSED_SECONDS_MIN, f"it tried {_REFUSALS} times in {took:.3f} s, without pauses")
    incarnations = {each.hello.incarnation_id for each in bench.sessions}
    require(len(incarnations) == 1, f"one start said hello as {len(incarnations)} incarnations")
    await bench.welcome(refused)


async def says_who_it_is_first(bench: Bench) -> None:
    """The first frame is a hello with a name, an incarnation id, the type `synthetic`, and nothing held."""
    await bench.session()
    first = bench.first.first
    require(first.HasField("hello"), "the first frame of the stream holds no hello")
    hello = first.hello
    require(1 <= len(hello.executor_name) <= _NAME_CHARACTERS_MAX, "the name must have 1 to 100 characters")
    require(len(hello.runtime) <= _RUNTIME_CHARACTERS_MAX, "the runtime may have 100 characters")
    require(_is_uuid(hello.incarnation_id), f"the incarnation id {hello.incarnation_id!r} is no UUID")
    require(not hello.held, f"a fresh start names {len(hello.held)} leases that it holds")
    _require_capabilities(hello)


def _require_capabilities(hello: pb.Hello) -> None:
    for each in hello.capabilities:
        versions = [*each.input_schema_versions, *each.output_schema_versions]
        complete = each.input_schema_versions and each.output_schema_versions and min(versions) >= 1
        require(complete, f"the type {each.job_type!r} needs versions of input and output, from 1 on")
    pairs = sum(
        len(each.input_schema_versions) * len(each.output_schema_versions) for each in hello.capabilities
    )
    require(pairs <= _PAIRS_MAX, f"{pairs} pairs of schema versions are announced; 1,000 are allowed")
    able = any(
        each.job_type == "synthetic"
        and _VERSION in each.input_schema_versions
        and _VERSION in each.output_schema_versions
        for each in hello.capabilities
    )
    require(able, "the type `synthetic` with version 1 of input and output is not announced")


async def waits_for_the_welcome(bench: Bench) -> None:
    """Between its hello and the welcome an executor says nothing: it learns there what it still holds."""
    session = await bench.broken(await bench.session())
    try:
        await session.until(lambda: session.frames, seconds=_SILENCE_SECONDS)
    except TimeoutError:
        await bench.welcome(session)
    else:
        raise Unmet(f"it did not wait for the welcome, but sent: {session.frames[0]}".rstrip())


async def gives_credits_for_its_queue(bench: Bench) -> None:
    """After the welcome credits come, each for a queue, 1 to 10,000 in one."""
    session = await bench.session()
    for credit in (each for frame in session.frames for each in frame.credits):
        require(credit.queue, "a credit names no queue")
        require(
            1 <= credit.count <= _CREDIT_COUNT_MAX,
            f"a credit for {credit.count} leases; 1 to 10,000 are allowed",
        )


async def is_another_incarnation_after_each_start(bench: Bench) -> None:
    """The incarnation id is new at each start: the name is no identity."""
    before = (await bench.session()).hello.incarnation_id
    after = (await bench.start()).hello.incarnation_id
    require(before != after, f"two starts have the same incarnation id, {after}")
    await bench.welcome(bench.sessions[-1])


async def passes_over_what_it_does_not_know(bench: Bench) -> None:
    """Fields and leases that an executor does not know are no reason to stop: services may be newer."""
    session = await bench.session()
    unknown = pb.LeaseRef(job_id="00000000-0000-7000-8000-000000000000", token="1.unknown")
    frame = pb.OpenSessionResponse.FromString(_UNKNOWN_FIELD)
    frame.lost.add().CopyFrom(unknown)
    frame.answers.add(lease=unknown, outcome=pb.REPORT_OUTCOME_ACCEPTED)
    frame.pieces_recorded.add(lease=unknown, number=1)
    frame.cancels.add().CopyFrom(unknown)
    await session.send_frame(frame)
    await bench.until(
        session,
        lambda: unknown in session.cancels_seen,
        "a cancel of a lease that it does not hold was not seen",
    )
    await session.send_frame(pb.OpenSessionResponse())
    lease = a_synthetic(items=3)
    lease.MergeFromString(_UNKNOWN_FIELD)
    await bench.grant_all(session, lease)
    await bench.success(session, lease)


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


CHECKS = (
    Check(keeps_trying_while_the_service_is_unavailable),
    Check(says_who_it_is_first),
    Check(waits_for_the_welcome),
    Check(gives_credits_for_its_queue),
    Check(passes_over_what_it_does_not_know),
)
RESTARTS = (Check(is_another_incarnation_after_each_start),)
