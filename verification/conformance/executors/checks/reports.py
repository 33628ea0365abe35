"""How attempts end: outputs, their hashes, failures, and reports that wait for an answer."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import rfc8785

from shared.gen.baton.v1 import execution_service_pb2 as pb
from verification.conformance.executors.bench import Bench, a_synthetic, described, is_named
from verification.conformance.executors.check import Check, Feature
from verification.unmet import Unmet, require

_CODES = ("PROVIDER_UNAVAILABLE", "INPUT_UNREADABLE", "CONTENT_SAFETY_REFUSED")
_CODE = re.compile(r"[A-Z][A-Z0-9_]{2,63}")
_MESSAGE_CHARACTERS_MAX = 1_000
_INTERNAL_MESSAGE_CHARACTERS_MAX = 10_000
_PADDING_BYTES = 200_000
_ATTEMPT_MAX = 2**32 - 1
_OUTCOMES = (
    pb.REPORT_OUTCOME_ACCEPTED,
    pb.REPORT_OUTCOME_CANCELLED_INSTEAD,
    pb.REPORT_OUTCOME_RETRY_SCHEDULED,
    pb.REPORT_OUTCOME_LEASE_LOST,
    pb.REPORT_OUTCOME_REFUSED,
)


async def reports_outputs_with_their_canonical_hash(bench: Bench) -> None:
    """An output is JSON, and its hash SHA-256 over its canonical form (RFC 8785)."""
    session = await bench.session()
    for items, attempt in ((1, 1), (0, 2), (1_000, 1_000_000), (3, _ATTEMPT_MAX)):
        lease = a_synthetic(items=items, attempt=attempt)
        await bench.grant_all(session, lease)
        output = checked_output(await bench.success(session, lease))
        told = (output.get("items"), output.get("attempt"))
        require(told == (items, attempt), f"items and attempt are {told}, not {(items, attempt)}")


async def reports_large_outputs(bench: Bench) -> None:
    """An output of two hundred thousand bytes is reported whole."""
    session = await bench.session()
    lease = await bench.grant(session, accepted=False, output_bytes=_PADDING_BYTES)
    output = checked_output(await bench.success(session, lease, seconds=20))
    padding = len(output.get("padding", ""))
    require(padding == _PADDING_BYTES, f"the padding has {padding} bytes, not {_PADDING_BYTES}")


def checked_output(success: pb.Success) -> Any:
    """Read an output, and compare its hash.

    Raises:
        Unmet: It is no JSON, or the hash is another one.
    """
    try:
        output = json.loads(success.output)
    except ValueError as error:
        raise Unmet(f"the output is no JSON: {error}") from None
    right = hashlib.sha256(rfc8785.dumps(output)).hexdigest()
    require(
        success.output_hash == right,
        f"the hash of {success.output[:200]!r} is {right}, not {success.output_hash}",
    )
    return output


async def reports_failures_with_their_code(bench: Bench) -> None:
    """A handler's failure is reported with its code and a message; an attempt that does not fail succeeds."""
    session = await bench.session()
    for code in _CODES:
        lease = await bench.grant(session, accepted=False, fail_attempts=[1], fail_code=code)
        failure = (await bench.report(session, lease)).failure
        require(failure.code == code, f"the code is {failure.code!r}, not {code}")
        require(_CODE.fullmatch(failure.code), f"{failure.code!r} is no error code")
        fits = 1 <= len(failure.message) <= _MESSAGE_CHARACTERS_MAX
        require(fits, f"the message has {len(failure.message)} characters; 1 to 1,000 are asked for")
        require(
            len(failure.internal_message) <= _INTERNAL_MESSAGE_CHARACTERS_MAX,
            "the internal message is too long",
        )
    second = await bench.grant(session, accepted=False, fail_attempts=[1], attempt=2)
    await bench.success(session, second)


async def is_done_with_a_lease_however_its_report_is_answered(bench: Bench) -> None:
    """Every answer ends a lease, also REFUSED and LEASE_LOST: its credit comes again, and no other report."""
    session = await bench.session()
    session.answering_reports = False
    leases = [await bench.grant(session, accepted=False) for _ in _OUTCOMES]
    reports = [await bench.report(session, lease) for lease in leases]
    answers = [
        pb.ReportAnswer(lease=each.lease, outcome=outcome)
        for each, outcome in zip(reports, _OUTCOMES, strict=True)
    ]
    await session.send(answers=answers)
    session.answering_reports = True
    other = await bench.grant(session)
    await bench.success(session, other)
    later = await bench.broken(session)
    still = [each for each in leases if is_named(each, later.hello.held)]
    await bench.welcome(later, kept=later.hello.held)
    require(not still, f"{len(still)} leases are still held whose reports were answered")
    again = [each for each in leases if session.reports_of(each)[1:] or later.reports_of(each)]
    require(not again, f"{len(again)} reports came again after they had been answered")


async def reports_again_after_a_broken_stream(bench: Bench) -> None:
    """A report that was not answered is sent again over the next session; its lease is held till then."""
    session = await bench.session()
    session.answering_reports = False
    lease = await bench.grant(session, accepted=False, items=5)
    report = await bench.report(session, lease)
    later = await bench.broken(session)
    require(is_named(lease, later.hello.held), "a lease whose report is unanswered is not among those held")
    await bench.welcome(later, kept=later.hello.held)
    again = await bench.report(later, lease)
    require(again == report, f"the second report differs: {described(report)}, then {described(again)}")
    last = await bench.broken(later)
    require(not is_named(lease, last.hello.held), "a lease whose report was answered is still held")
    await bench.welcome(last)


CHECKS = (
    Check(reports_outputs_with_their_canonical_hash),
    Check(reports_large_outputs, needs=(Feature.SIZES,)),
    Check(reports_failures_with_their_code, needs=(Feature.FAILURES,)),
    Check(is_done_with_a_lease_however_its_report_is_answered),
    Check(reports_again_after_a_broken_stream),
)
