"""The executor as the process that it is: its start, its end, and what it leaves behind."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from shared.gen.baton.v1 import execution_service_pb2 as pb
from tests.support.executors import an_executor_process
from verification.peers.executor import ref
from verification.peers.service import (
    LIMIT_SECONDS,
    ScriptedSession,
    a_lease,
    scripted_service,
    until,
)


async def started(session: ScriptedSession, lease: pb.Lease, ledger: Path) -> None:
    """Grant a lease and wait until its handler runs."""
    await session.grant(lease)
    await until(lambda: ledger.exists() and lease.job_id in ledger.read_text())


async def test_it_finishes_what_it_can_gives_the_rest_back_and_says_goodbye(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    async with scripted_service() as service, an_executor_process(service.address) as process:
        session = await service.welcomed()
        short = a_lease(given={"duration_seconds": 1.5, "ledger": str(ledger)})
        long = a_lease(given={"duration_seconds": 60, "ledger": str(ledger)}, grace=20.0)
        deaf = a_lease(
            given={"duration_seconds": 60, "ledger": str(ledger), "ignore_cancel": True}, grace=20.0
        )
        await started(session, short, ledger)
        await started(session, long, ledger)
        await started(session, deaf, ledger)
        process.send_signal(signal.SIGTERM)
        assert (await session.report_of(short)).HasField("success")
        credits = session.credits()
        late = a_lease()
        await session.grant(late)
        draining = pb.GiveBack(reason=pb.GIVE_BACK_REASON_DRAINING)
        assert (await session.report_of(late)).give_back == draining
        assert (await session.report_of(long)).give_back == draining
        heartbeats = len(session.heartbeats_of(deaf))
        assert (await session.report_of(deaf)).give_back == draining
        await session.until(lambda: session.frames[-1].HasField("goodbye"))
        assert session.credits() == credits == 64
        assert len(session.heartbeats_of(deaf)) > heartbeats
        async with asyncio.timeout(LIMIT_SECONDS):
            assert await process.wait() == 0


async def test_a_second_signal_ends_it_at_once_and_its_handlers_with_it(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    async with scripted_service() as service, an_executor_process(service.address) as process:
        session = await service.welcomed()
        await started(session, a_lease(given={"duration_seconds": 60, "ledger": str(ledger)}), ledger)
        children = _children(process.pid)
        process.send_signal(signal.SIGTERM)
        late = a_lease()
        await session.grant(late)
        await session.report_of(late)  # it has taken in the first signal
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(LIMIT_SECONDS):
            assert await process.wait() == -signal.SIGTERM
        await until(lambda: not any(map(_runs, children)))

    assert children


async def test_when_it_is_killed_no_handler_outlives_it_however_busy(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    async with scripted_service() as service, an_executor_process(service.address) as process:
        session = await service.welcomed()
        given = {"duration_seconds": 60, "work": "blocking", "ledger": str(ledger)}
        await started(session, a_lease(given=given), ledger)
        [child] = _children(process.pid)
        process.kill()
        await process.wait()
        await until(lambda: not _runs(child))


async def test_what_it_can_not_do_is_said_in_a_line_for_each_fault() -> None:
    async with an_executor_process("127.0.0.1:1", "--queue", "nowhere", "--job-type", "nothing") as process:
        assert process.stderr is not None
        said = (await process.stderr.read()).decode()
        assert await process.wait() == 2

    assert "baton: there is no queue 'nowhere'; there are " in said
    assert "baton: there is no job type 'nothing'; there are delivery_zip, document_import, " in said


async def test_a_killed_handler_process_is_replaced_while_the_keeper_goes_on(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    async with scripted_service() as service, an_executor_process(service.address) as process:
        session = await service.welcomed()
        lease = a_lease(given={"duration_seconds": 60, "ledger": str(ledger)})
        await started(session, lease, ledger)
        [child] = _children(process.pid)
        _kill(child)
        report = await session.report_of(lease)
        assert report.give_back == pb.GiveBack(reason=pb.GIVE_BACK_REASON_PROCESS_DIED, alone=True)
        again = a_lease()
        await session.grant(again)
        assert (await session.report_of(again)).HasField("success")
        assert ref(lease) not in session.cancels_seen


def _children(process_id: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()]


def _kill(process_id: int) -> None:
    os.kill(process_id, signal.SIGKILL)


def _runs(process_id: int) -> bool:
    status = Path(f"/proc/{process_id}/stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
