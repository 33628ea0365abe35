"""How handlers run and end: their errors in the contract's words, their time, their stop, their processes."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog

from job_worker.executor.handler_pool import ALONE_MAX, BIRTHS_MAX
from shared.catalog.json_text import parse
from shared.gen.baton.v1 import execution_service_pb2 as pb
from shared.runtime.faults import StartupFault
from tests.support.executors import an_executor, handler_processes
from verification.peers.executor import ref
from verification.peers.service import a_lease, scripted_service, until

DRILLS = {"job_modules": ("tests.support.drill_jobs",), "serve_job_types": ("async_drill", "plain_drill")}
LONG = {"duration_seconds": 60}


async def end_of(lease: pb.Lease, **settings: object) -> pb.Report:
    """Run one lease on an executor of its own, and return its report."""
    async with scripted_service() as service, an_executor(service.address, **{**DRILLS, **settings}):
        session = await service.welcomed()
        await session.grant(lease)
        return await session.report_of(lease)


@pytest.mark.parametrize(
    ("word", "code", "message"),
    [
        ("crash", "INTERNAL_HANDLER", "the handler failed"),
        ("exit", "INTERNAL_HANDLER", "the handler failed"),
        ("raise something else", "INTERNAL_HANDLER", "the handler failed"),
        ("interrupt", "INTERNAL_HANDLER", "the handler failed"),
        ("stop itself", "INTERNAL_HANDLER", "the handler failed"),
        ("fail without a code", "INTERNAL_HANDLER", "the handler failed"),
        ("fail", "PROVIDER_RATE_LIMIT", "come back later"),
        ("answer nonsense", "VALIDATION_OUTPUT", "the output does not fit: text: "),
        ("build nonsense", "VALIDATION_OUTPUT", "the output does not fit: number: "),
        (
            "answer too much",
            "PAYLOAD_TOO_LARGE",
            "the output has 2000022 bytes; at most 1048576 are allowed",
        ),
        ("emit too much", "PAYLOAD_TOO_LARGE", "a piece has 70000 bytes; at most 65536 are allowed"),
    ],
)
async def test_what_goes_wrong_in_a_handler_has_a_code_and_a_sentence(
    word: str, code: str, message: str
) -> None:
    failure = (await end_of(a_lease("async_drill", {"do": word}))).failure

    assert failure.code == code
    assert failure.message.startswith(message)
    assert "secret" not in failure.message
    if word == "crash":
        assert "RuntimeError: secret internals" in failure.internal_message
    if word == "fail":
        assert (failure.retry_after.seconds, failure.internal_message) == (7, "429")


async def test_an_input_that_does_not_fit_names_the_fields_and_not_their_values() -> None:
    failure = (await end_of(a_lease("plain_drill", {"do": 5, "hunter2": "hunter2"}))).failure

    assert failure.code == "INPUT_INVALID"
    assert "do: Input should be a valid string" in failure.message
    assert failure.message.count("hunter2") == 1


async def test_an_attempt_knows_the_error_of_the_last_one() -> None:
    lease = a_lease("plain_drill", attempt=2)
    lease.last_error.code = "VALIDATION_OUTPUT"

    report = await end_of(lease)

    assert parse(report.success.output)["text"] == "attempt 2 after VALIDATION_OUTPUT"


async def test_a_plain_handler_streams_more_pieces_than_may_be_under_way() -> None:
    async with scripted_service() as service, an_executor(service.address, **DRILLS):
        session = await service.welcomed()
        lease = a_lease("plain_drill", {"do": "emit many"})
        await session.grant(lease)
        report = await session.report_of(lease)

    assert report.success.piece_count == 1_000
    assert [piece.number for piece in session.pieces] == list(range(1, 1_001))
    assert "".join(piece.text for piece in session.pieces).split() == [str(n) for n in range(1_000)]


@pytest.mark.parametrize("job_type", ["synthetic", "plain_drill"])
async def test_a_cancel_is_seen_at_once_and_the_handler_stops(job_type: str) -> None:
    given = LONG if job_type == "synthetic" else {"do": "wait for cancel"}
    settings = {**DRILLS, "serve_job_types": ("synthetic", "plain_drill")}
    async with scripted_service() as service, an_executor(service.address, **settings):
        session = await service.welcomed()
        lease = a_lease(job_type, given, grace=20.0)
        await session.grant(lease)
        await session.send(cancels=[ref(lease)])
        await session.until(lambda: session.cancels_seen == [ref(lease)])
        report = await session.report_of(lease)

    assert report == pb.Report(lease=ref(lease), stopped=pb.Stopped())


async def test_a_handler_that_runs_out_of_time_is_stopped_and_reported_so() -> None:
    report = await end_of(a_lease(given=LONG, time_left=0.3, grace=20.0), serve_job_types=("synthetic",))

    assert report.failure.code == "TIMEOUT"


async def test_who_ignores_the_end_of_its_time_is_killed_and_its_neighbours_are_given_back() -> None:
    async with scripted_service() as service, an_executor(service.address):
        session = await service.welcomed()
        late = a_lease(given={**LONG, "ignore_cancel": True}, time_left=0.3, grace=0.5)
        neighbours = [a_lease(given=LONG) for _ in range(2)]
        await session.grant(late, *neighbours)
        assert (await session.report_of(late)).failure.code == "TIMEOUT"
        for neighbour in neighbours:
            report = await session.report_of(neighbour)
            assert report.give_back == pb.GiveBack(reason=pb.GIVE_BACK_REASON_NEIGHBOUR_KILLED)
        after = a_lease()
        await session.grant(after)
        assert (await session.report_of(after)).HasField("success")
        await session.until(lambda: session.credits() == 64 + 4)


async def test_who_ignores_a_cancel_is_killed_and_reported_as_stopped(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    async with scripted_service() as service, an_executor(service.address):
        session = await service.welcomed()
        lease = a_lease(given={**LONG, "work": "blocking", "ledger": str(ledger)}, grace=0.5)
        await session.grant(lease)
        await until(ledger.exists)
        await session.send(cancels=[ref(lease)])
        report = await session.report_of(lease)

    assert report == pb.Report(lease=ref(lease), stopped=pb.Stopped(killed=True))


async def test_many_suspects_take_turns_in_a_few_processes() -> None:
    async with scripted_service() as service, an_executor(service.address):
        session = await service.welcomed()
        suspects = [a_lease(given={"duration_seconds": 0.05}, run_alone=True) for _ in range(ALONE_MAX + 8)]
        await session.grant(*suspects)
        await until(lambda: len(handler_processes()) > 1)
        for suspect in suspects:
            assert len(handler_processes()) <= 1 + ALONE_MAX
            assert (await session.report_of(suspect)).HasField("success")
        await until(lambda: len(handler_processes()) == 1)


async def test_short_suspects_are_run_by_the_first_processes_that_start() -> None:
    with structlog.testing.capture_logs() as lines:
        async with scripted_service() as service, an_executor(service.address):
            session = await service.welcomed()
            suspects = [a_lease(run_alone=True) for _ in range(ALONE_MAX)]
            await session.grant(*suspects)
            for suspect in suspects:
                assert (await session.report_of(suspect)).HasField("success")
            await until(lambda: len(handler_processes()) == 1)

    started = [each for each in lines if each["event"] == "handler_process.started" and each["alone"]]
    # Those that start while the first ones run all that waits are not needed any more.
    assert 1 <= len(started) <= 2 * BIRTHS_MAX


async def test_all_that_were_inside_a_process_that_dies_are_given_back(tmp_path: Path) -> None:
    async with scripted_service() as service, an_executor(service.address):
        session = await service.welcomed()
        others = [a_lease(given=LONG) for _ in range(2)]
        deadly = a_lease(given={"exit_attempts": [1], "ledger": str(tmp_path / "ledger")})
        await session.grant(*others, deadly)
        for lease in (*others, deadly):
            report = await session.report_of(lease)
            assert report.give_back == pb.GiveBack(reason=pb.GIVE_BACK_REASON_PROCESS_DIED)
        again = a_lease()
        await session.grant(again)
        assert (await session.report_of(again)).HasField("success")

    lines = (tmp_path / "ledger").read_text().splitlines()
    assert lines == [f"{deadly.job_id} 1 {deadly.token} {phase}" for phase in ("started", "exiting")]


async def test_a_suspect_runs_alone_and_its_death_is_its_own() -> None:
    async with scripted_service() as service, an_executor(service.address):
        session = await service.welcomed()
        other = a_lease(given={"duration_seconds": 4})
        suspect = a_lease(given={"exit_attempts": [1]}, run_alone=True)
        innocent = a_lease(run_alone=True)
        await session.grant(other, suspect, innocent)
        report = await session.report_of(suspect)
        assert report.give_back == pb.GiveBack(reason=pb.GIVE_BACK_REASON_PROCESS_DIED, alone=True)
        assert (await session.report_of(innocent)).HasField("success")
        assert (await session.report_of(other)).HasField("success")


async def test_heartbeats_go_on_while_a_handler_holds_the_interpreter_lock() -> None:
    async with scripted_service() as service, an_executor(service.address):
        session = await service.welcomed()
        lease = a_lease(given={"work": "blocking", "duration_seconds": 2})
        await session.grant(lease)
        await session.until(lambda: len(session.heartbeats_of(lease)) >= 8)
        assert session.reports == []
        assert (await session.report_of(lease)).HasField("success")


@pytest.mark.parametrize(
    ("job_type", "given"),
    [
        ("async_drill", {"do": "hold the loop"}),
        ("async_drill", {"do": "hold the loop in a task of its own"}),
        ("synthetic", {"work": "busy", "duration_seconds": 1.5}),
        ("synthetic", {"work": "blocking", "duration_seconds": 1.5}),
    ],
)
async def test_who_holds_up_the_loop_of_its_process_is_named_in_the_log(
    job_type: str, given: dict[str, object]
) -> None:
    settings = {**DRILLS, "serve_job_types": ("async_drill", "plain_drill", "synthetic")}
    with structlog.testing.capture_logs() as lines:
        lease = a_lease(job_type, given)
        async with scripted_service() as service, an_executor(service.address, **settings):
            session = await service.welcomed()
            await session.grant(lease, a_lease("plain_drill", {"do": "wait for cancel"}))
            await session.report_of(lease)
            await until(lambda: "handler.loop_blocked" in {each["event"] for each in lines})

    [blocked] = [each for each in lines if each["event"] == "handler.loop_blocked"]
    assert (blocked["job_type"], blocked["job_id"]) == (job_type, lease.job_id)
    assert blocked["lag_s"] > 1.0


async def test_handlers_that_do_not_fit_are_all_named_before_anything_starts() -> None:
    async with an_executor(
        "127.0.0.1:1", job_modules=("tests.support.misfit_jobs",), serve_job_types=()
    ) as running:
        with pytest.raises(StartupFault) as caught:
            await running

    text = "\n".join(caught.value.faults)
    assert "job type 'without_handler' has no handler" in text
    assert "the handler of 'wrong_input' must take Wanted, not Other" in text
    assert "the handler of 'wrong_output' must return Wanted, not str" in text
    assert "there is a handler for the job type 'unknown', which no definition names" in text


async def test_with_two_processes_a_handler_that_holds_one_up_leaves_the_other_alone() -> None:
    async with scripted_service() as service, an_executor(service.address, handler_processes=2):
        session = await service.welcomed()
        both = [a_lease() for _ in range(2)]
        await session.grant(*both)
        for lease in both:
            await session.report_of(lease)
        blocking = a_lease(given={"work": "blocking", "duration_seconds": 60}, grace=0.1)
        await session.grant(blocking)
        await session.until(lambda: session.heartbeats_of(blocking))
        quick = a_lease()
        await session.grant(quick)
        assert (await session.report_of(quick)).HasField("success")
        assert session.reports_of(blocking) == []
