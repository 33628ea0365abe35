"""How an executor speaks with the service: hello, credits, heartbeats, reports, breaks, drains."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import pytest

from shared.catalog.json_text import content_hash, parse
from shared.gen.baton.v1 import execution_service_pb2 as pb
from shared.runtime.faults import StartupFault
from tests.support.executors import an_executor
from verification.peers.executor import ref
from verification.peers.service import LIMIT_SECONDS, a_lease, scripted_service, until

DRILLS = {"job_modules": ("tests.support.drill_jobs",), "serve_job_types": ("async_drill", "plain_drill")}


async def test_a_lease_is_accepted_at_once_and_its_result_handed_in() -> None:
    async with scripted_service() as service, an_executor(service.address):
        session = await service.welcomed()
        await session.until(lambda: session.credits() == 64)
        lease = a_lease(given={"output_bytes": 10}, attempt=3)
        await session.grant(lease)
        report = await session.report_of(lease)

    output = parse(report.success.output)
    assert output == {"attempt": 3, "items": 1, "padding": "x" * 10}
    assert report.success.output_hash == content_hash(output)
    assert session.heartbeats_of(lease)[0] == pb.Heartbeat(lease=ref(lease))


async def test_the_hello_says_who_is_there_and_what_it_can_do() -> None:
    async with scripted_service() as service:
        async with an_executor(service.address):
            first = await service.session()
        async with an_executor(service.address):
            second = await service.session()

    assert first.hello.executor_name == "under test"
    assert list(first.hello.capabilities) == [
        pb.Capability(job_type="synthetic", input_schema_versions=[1], output_schema_versions=[1])
    ]
    assert first.hello.incarnation_id != second.hello.incarnation_id


async def test_room_for_a_lease_comes_back_when_its_handler_has_ended_and_only_once() -> None:
    async with scripted_service() as service, an_executor(service.address):
        service.answering = False
        session = await service.welcomed()
        first, second = a_lease(), a_lease()
        await session.grant(first)
        await session.report_of(first)
        await session.until(lambda: session.credits() == 65)
        await session.send(answers=[pb.ReportAnswer(lease=ref(first), outcome=pb.REPORT_OUTCOME_ACCEPTED)])
        await session.grant(second)
        await session.report_of(second)
        await session.until(lambda: session.credits() == 66)


async def test_while_ends_are_unanswered_no_more_leases_are_taken_than_twice_the_room() -> None:
    async with scripted_service() as service, an_executor(service.address):
        service.answering = False
        session = await service.welcomed()
        leases = [a_lease() for _ in range(128)]
        await session.grant(*leases[:64])
        await session.until(lambda: session.credits() == 128)
        await session.grant(*leases[64:])
        await session.until(lambda: len(session.reports) == 128)
        assert session.credits() == 128
        await session.send(
            answers=[pb.ReportAnswer(lease=ref(leases[0]), outcome=pb.REPORT_OUTCOME_ACCEPTED)]
        )
        await session.until(lambda: session.credits() == 129)


async def test_a_lost_lease_makes_room_and_nothing_is_reported_of_it() -> None:
    async with scripted_service() as service, an_executor(service.address):
        session = await service.welcomed()
        lost, kept = a_lease(given={"duration_seconds": 60}), a_lease(given={"duration_seconds": 0.5})
        await session.grant(lost, kept)
        await session.send(lost=[ref(lost)])
        await session.until(lambda: session.credits() == 65)
        await session.report_of(kept)

    assert session.reports_of(lost) == []


async def test_heartbeats_of_all_leases_share_a_frame_and_carry_the_latest_progress() -> None:
    async with scripted_service() as service, an_executor(service.address):
        session = await service.welcomed()
        leases = [a_lease(given={"items": 100, "duration_seconds": 20}) for _ in range(10)]
        await session.grant(*leases)
        await session.until(
            lambda: any(
                len(frame.heartbeats) == 10 and all(each.progress > 0 for each in frame.heartbeats)
                for frame in session.frames
            )
        )

    numbers = [frame.heartbeat_number for frame in session.frames if frame.heartbeats]
    assert numbers == sorted(set(numbers))
    assert "of 100 items" in session.heartbeats[-1].progress_message


async def test_progress_is_cut_to_what_the_service_takes() -> None:
    async with scripted_service() as service, an_executor(service.address, **DRILLS):
        session = await service.welcomed(progress_message_characters_max=50)
        lease = a_lease("plain_drill", {"do": "report much"})
        await session.grant(lease)
        await session.until(lambda: any(each.progress for each in session.heartbeats_of(lease)))

    [progress] = {each.progress_message for each in session.heartbeats_of(lease) if each.progress}
    assert progress == "y" * 49 + "…"
    assert {each.progress for each in session.heartbeats_of(lease)} == {0, 41}


@pytest.mark.parametrize("status", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, None])
async def test_after_a_break_it_comes_back_with_its_leases_and_the_handlers_go_on(
    status: grpc.StatusCode | None,
) -> None:
    async with scripted_service() as service, an_executor(service.address):
        first = await service.welcomed()
        lease = a_lease(given={"duration_seconds": 0.7})
        await first.grant(lease)
        await first.until(lambda: first.heartbeats_of(lease))
        first.finish(status)
        second = await service.welcomed()
        assert list(second.hello.held) == [ref(lease)]
        assert second.hello.incarnation_id == first.hello.incarnation_id
        await second.until(lambda: second.credits() == 63 and second.heartbeats_of(lease))
        assert (await second.report_of(lease)).HasField("success")
        await second.until(lambda: second.credits() == 64)


async def test_reports_and_pieces_that_were_not_answered_are_sent_again() -> None:
    async with scripted_service() as service, an_executor(service.address):
        service.answering = False
        first = await service.welcomed()
        lease = a_lease(given={"pieces": 3})
        await first.grant(lease)
        report = await first.report_of(lease)
        await first.send(pieces_recorded=[pb.PiecesRecorded(lease=ref(lease), number=1)])
        first.finish(grpc.StatusCode.UNAVAILABLE)
        second = await service.welcomed()
        assert await second.report_of(lease) == report

    assert report.success.piece_count == 3
    assert [each.number for each in first.pieces] == [1, 2, 3]
    assert [each.number for each in second.pieces] in ([2, 3], [1, 2, 3])


async def test_leases_that_the_welcome_calls_lost_are_stopped() -> None:
    async with scripted_service() as service, an_executor(service.address):
        first = await service.welcomed()
        lease = a_lease(given={"duration_seconds": 60})
        await first.grant(lease)
        await first.until(lambda: first.heartbeats_of(lease))
        first.finish(grpc.StatusCode.UNAVAILABLE)
        second = await service.session()
        await second.welcome(lost=[ref(lease)])
        await second.until(lambda: second.credits() == 64)

    assert second.heartbeats_of(lease) == []


async def test_when_drained_it_opens_the_next_session_before_it_ends_the_old_one() -> None:
    async with scripted_service() as service, an_executor(service.address):
        first = await service.welcomed()
        lease = a_lease(given={"duration_seconds": 0.7})
        await first.grant(lease)
        await first.until(lambda: first.heartbeats_of(lease))
        await first.send(drain=pb.Drain())
        second = await service.session()
        assert list(second.hello.held) == [ref(lease)]
        assert not first.ended.is_set()
        await second.welcome(kept=[ref(lease)])
        async with asyncio.timeout(LIMIT_SECONDS):
            await first.ended.wait()
        assert (await second.report_of(lease)).HasField("success")


async def test_contexts_say_that_leases_are_uncertain_until_heartbeats_are_recorded_again(
    tmp_path: Path,
) -> None:
    async with scripted_service() as service, an_executor(service.address, **DRILLS):
        session = await service.welcomed()
        doubted = tmp_path / "doubted"
        lease = a_lease("async_drill", {"do": "wait for doubt", "file": str(doubted)})
        await session.grant(lease)
        await session.until(lambda: session.heartbeats_of(lease))
        session.answering = False
        await until(doubted.exists)
        session.answering = True
        report = await session.report_of(lease)

    assert parse(report.success.output)["text"] == "doubted, then certain"


async def test_a_silent_session_is_left_only_for_one_that_is_welcomed() -> None:
    async with scripted_service() as service, an_executor(service.address):
        silent = await service.welcomed()
        silent.answering = False
        lease = a_lease(given={"duration_seconds": 60})
        await silent.grant(lease)
        vain = await service.session()
        assert list(vain.hello.held) == [ref(lease)]
        async with asyncio.timeout(LIMIT_SECONDS):
            await vain.ended.wait()
        heartbeats = len(silent.heartbeats_of(lease))
        better = await service.session()
        assert len(silent.heartbeats_of(lease)) > heartbeats
        assert not silent.ended.is_set()
        await better.welcome(kept=[ref(lease)])
        await better.until(lambda: better.heartbeats_of(lease))
        async with asyncio.timeout(LIMIT_SECONDS):
            await silent.ended.wait()


async def test_many_small_jobs_share_frames_in_both_directions() -> None:
    async with scripted_service() as service, an_executor(service.address):
        session = await service.welcomed()
        leases = [a_lease() for _ in range(64)]
        await session.grant(*leases)
        await session.until(lambda: len(session.reports) == 64)

    assert sum(bool(frame.reports) for frame in session.frames) <= 8


async def test_a_large_input_and_a_document_are_fetched() -> None:
    async with scripted_service() as service, an_executor(service.address, **DRILLS):
        session = await service.welcomed()
        lease = a_lease(
            "plain_drill",
            input=b"",
            input_bytes=200_000,
            document=pb.Document(document_bytes=300_000, media_type="text/plain", file_name="a.txt"),
        )
        service.snapshots[lease.job_id] = (b'{"do": "answer"' + b" " * 200_000 + b"}", b"d" * 300_000)
        await session.grant(lease)
        report = await session.report_of(lease)

    assert parse(report.success.output)["text"] == "a.txt text/plain 300000"


async def test_a_lease_whose_snapshot_is_gone_counts_as_lost() -> None:
    async with scripted_service() as service, an_executor(service.address):
        session = await service.welcomed()
        lease = a_lease(input=b"", input_bytes=200_000)
        await session.grant(lease)
        await session.until(lambda: session.credits() == 65)

    assert service.snapshot_calls == [lease.job_id]
    assert session.reports == []


async def test_a_job_that_it_did_not_announce_is_refused() -> None:
    async with scripted_service() as service, an_executor(service.address):
        session = await service.welcomed()
        strange, newer = a_lease("strange"), a_lease(input_schema_version=2)
        await session.grant(strange, newer)
        reports = [await session.report_of(strange), await session.report_of(newer)]

    assert {report.give_back.reason for report in reports} == {pb.GIVE_BACK_REASON_REFUSED}


async def test_a_service_that_refuses_its_first_hello_ends_it_in_one_line() -> None:
    async with scripted_service() as service, an_executor(service.address) as running:
        session = await service.session()
        session.finish(grpc.StatusCode.PERMISSION_DENIED)
        with pytest.raises(StartupFault, match="PERMISSION_DENIED"):
            await running


async def test_an_executor_waits_for_a_service_that_is_not_there_yet() -> None:
    async with scripted_service() as service:
        address = service.address
    async with an_executor(address) as running:
        done, _ = await asyncio.wait({running}, timeout=1.5)
        assert not done
