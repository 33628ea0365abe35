"""Credits, acceptance and heartbeats: how an executor says what it can take, and that it works on it."""

from __future__ import annotations

import json

from shared.gen.baton.v1 import execution_service_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from verification.conformance.executors.bench import INTERVAL_SECONDS, QUEUE, Bench, a_synthetic, described
from verification.conformance.executors.check import Check, Feature
from verification.unmet import require

_AT_ONCE_MAX = 200
_BEATS = 3
_WHOLE = 100
_ITEMS = 7
_LONG_SECONDS = 60.0
_NOTE = 'ünïcode ✓ \u2028 😀 "quoted" \\'
_LARGE_CHARACTERS = 300_000
_BLOCKING_SECONDS = 4.0


async def takes_as_many_leases_as_it_gave_credits_for(bench: Bench) -> None:
    """Leases for all credits are all accepted at once; each uses one, which comes again at its end."""
    session = await bench.broken(await bench.session())
    await bench.welcome(session)
    at_once = session.credits(QUEUE)
    count = min(at_once, _AT_ONCE_MAX)
    leases = [a_synthetic(duration_seconds=1.0) for _ in range(count)]
    await bench.grant_all(session, *leases)
    for lease in leases:
        await bench.accepted(session, lease)
    for lease in leases:
        await bench.success(session, lease)
    await bench.until(
        session,
        lambda: session.credits(QUEUE) >= at_once + count,
        lambda: f"{count} leases have ended, but {session.credits(QUEUE) - at_once} credits came again",
    )
    more = session.credits(QUEUE) - at_once - count
    require(more == 0, f"{count} leases have ended, and {more} credits more than those came")


async def accepts_a_lease_at_once_and_keeps_it_alive(bench: Bench) -> None:
    """The first heartbeat comes at once, and more follow in every interval while the handler works."""
    session = await bench.session()
    lease = await bench.grant(session, duration_seconds=2 * _BEATS * INTERVAL_SECONDS)
    await bench.beats(session, lease, _BEATS)
    await bench.drop(session, lease)


async def keeps_a_lease_alive_while_others_come(bench: Bench) -> None:
    """Leases that come and go in between do not delay the heartbeats of one that is held."""
    session = await bench.session()
    lease = await bench.grant(session, duration_seconds=2 * _BEATS * INTERVAL_SECONDS)
    while len(session.heartbeats_of(lease)) < _BEATS and not session.reports_of(lease):
        other = await bench.grant(session, accepted=False, duration_seconds=INTERVAL_SECONDS / 4)
        await bench.report(session, other)
    await bench.beats(session, lease, _BEATS)
    await bench.drop(session, lease)


async def keeps_a_lease_alive_until_its_report_is_answered(bench: Bench) -> None:
    """Heartbeats go on after the report until it is answered, and then end."""
    session = await bench.session()
    session.answering_reports = False
    lease = await bench.grant(session, duration_seconds=0.1)
    report = await bench.report(session, lease)
    await bench.beats(session, lease, len(session.heartbeats_of(lease)) + 2, reported=True)
    session.answering_reports = True
    await session.send(answers=[pb.ReportAnswer(lease=report.lease, outcome=pb.REPORT_OUTCOME_ACCEPTED)])
    other = await bench.grant(session, duration_seconds=2.2 * INTERVAL_SECONDS)
    before = len(session.heartbeats_of(lease))
    await bench.success(session, other)
    later = len(session.heartbeats_of(lease)) - before
    require(not later, f"{later} heartbeats came for a lease whose report had been answered")


async def tells_how_far_it_is(bench: Bench) -> None:
    """Progress comes with heartbeats, 0 to 100 per cent, while the handler works."""
    session = await bench.session()
    lease = await bench.grant(session, items=10, duration_seconds=6 * INTERVAL_SECONDS)
    await bench.until(
        session,
        lambda: any(0 < each.progress < _WHOLE for each in session.heartbeats_of(lease)),
        "no heartbeat told of progress between the begin and the end",
        seconds=20,
    )
    await bench.drop(session, lease)


async def survives_a_handler_that_holds_the_interpreter(bench: Bench) -> None:
    """Heartbeats do not depend on the handlers' interpreter."""
    session = await bench.session()
    lease = await bench.grant(session, duration_seconds=_BLOCKING_SECONDS, work="blocking")
    await bench.beats(session, lease, _BEATS)
    await bench.success(session, lease, seconds=20)


async def refuses_versions_that_it_did_not_announce(bench: Bench) -> None:
    """A lease of a type or schema version that it did not announce is given back as REFUSED."""
    session = await bench.session()
    strangers = (
        a_synthetic(input_schema_version=4_000),
        a_synthetic(output_schema_version=4_000),
        a_synthetic(job_type="never_announced"),
    )
    for lease in strangers:
        await bench.grant_all(session, lease)
        report = await bench.report(session, lease)
        refused = report.give_back.reason == pb.GIVE_BACK_REASON_REFUSED
        require(refused, f"{lease.job_type} of foreign versions was not refused, but {described(report)}")


async def reads_inputs_as_json(bench: Bench) -> None:
    """Inputs are UTF-8 JSON text in any layout; one that does not fit fails as INPUT_*."""
    session = await bench.session()
    text = json.dumps({"note": _NOTE, "items": 3}, indent=2, ensure_ascii=False).encode()
    escaped = b'{ "items" : 4.0e0 , "note":"\\u00fc\\ud83d\\ude00" }'
    for given, items in ((text, 3), (escaped, 4)):
        lease = a_synthetic(input=given, input_bytes=len(given))
        await bench.grant_all(session, lease)
        success = await bench.success(session, lease)
        require(
            json.loads(success.output).get("items") == items, f"items are not {items}: {success.output!r}"
        )
    misfit = b'{"items":"many"}'
    lease = a_synthetic(input=misfit, input_bytes=len(misfit))
    await bench.grant_all(session, lease)
    report = await bench.report(session, lease)
    told = report.failure.code.startswith("INPUT_")
    require(told, f"an input that does not fit must fail as INPUT_*; it was {described(report)}")


async def fetches_what_a_lease_does_not_carry(bench: Bench) -> None:
    """An input that is not in the lease, and a document, are fetched by GetSnapshot, in chunks."""
    session = await bench.session()
    given = json.dumps({"items": _ITEMS, "note": "x" * _LARGE_CHARACTERS}).encode()
    document = b"%document%" * 20_000
    told = pb.Document(document_bytes=len(document), media_type="text/plain")
    for extra in ({}, {"document": told}):
        lease = a_synthetic(input=b"", input_bytes=len(given), **extra)
        bench.executor.service.snapshots[lease.job_id] = (given, document if extra else b"")
        await bench.grant_all(session, lease)
        success = await bench.success(session, lease, seconds=20)
        require(lease.job_id in bench.executor.service.snapshot_calls, "GetSnapshot was not called")
        require(
            json.loads(success.output).get("items") == _ITEMS, f"items are not {_ITEMS}: {success.output!r}"
        )


async def runs_whatever_else_a_lease_says(bench: Bench) -> None:
    """Leases that run alone, tell of the last attempt's error, or can't be cancelled, run as any other."""
    session = await bench.session()
    error = job_pb2.JobError(code="PROVIDER_TIMEOUT", message="it took too long")
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    leases = (
        a_synthetic(run_alone=True),
        a_synthetic(attempt=2, last_error=error),
        a_synthetic(cancellable=False, priority=100, traceparent=parent, prompt_version="7"),
    )
    for lease in leases:
        await bench.grant_all(session, lease)
        await bench.success(session, lease, seconds=20)


async def keeps_an_attempt_that_must_run_alone_apart(bench: Bench) -> None:
    """A process that dies with an attempt that runs alone takes no other with it, and is reported as such."""
    session = await bench.session()
    other = await bench.grant(session, duration_seconds=2.0)
    (lease,) = await bench.grant_all(session, a_synthetic(run_alone=True, exit_attempts=[1]))
    report = await bench.report(session, lease, seconds=20)
    died = pb.GiveBack(reason=pb.GIVE_BACK_REASON_PROCESS_DIED, alone=True)
    require(report.give_back == died, f"the process died with it alone; it was {described(report)}")
    await bench.success(session, other, seconds=20)


CHECKS = (
    Check(takes_as_many_leases_as_it_gave_credits_for),
    Check(accepts_a_lease_at_once_and_keeps_it_alive),
    Check(keeps_a_lease_alive_while_others_come),
    Check(keeps_a_lease_alive_until_its_report_is_answered),
    Check(tells_how_far_it_is, needs=(Feature.PROGRESS,)),
    Check(refuses_versions_that_it_did_not_announce),
    Check(reads_inputs_as_json),
    Check(fetches_what_a_lease_does_not_carry),
    Check(runs_whatever_else_a_lease_says),
    Check(survives_a_handler_that_holds_the_interpreter, needs=(Feature.BLOCKING,)),
    Check(keeps_an_attempt_that_must_run_alone_apart, needs=(Feature.EXITS,)),
)
