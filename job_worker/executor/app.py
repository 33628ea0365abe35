"""The executor's main process: puts its parts together, and takes them down in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import version
from uuid import uuid4

import structlog

from job_worker.executor import readiness
from job_worker.executor.connection import Connection
from job_worker.executor.dialling import Way
from job_worker.executor.handler_pool import HandlerPool
from job_worker.executor.heartbeats import Heartbeats
from job_worker.executor.held_lease import LeaseBook
from job_worker.executor.keeper import Keeper
from job_worker.executor.outgoing import Outgoing
from job_worker.executor.selection import Selection, select
from job_worker.executor.settings import ExecutorSettings
from job_worker.executor.snapshots import Snapshots
from shared.catalog import catalog
from shared.gen.baton.internal.v1.handler_pipe_pb2 import Setup
from shared.gen.baton.v1.execution_service_pb2 import Capability, Hello
from shared.rpc.channel import call_metadata
from shared.rpc.tls import Tls
from shared.runtime.clock import Clock, SystemClock
from shared.runtime.loops import Loop, Timetable, background
from shared.runtime.processes import until_signalled

log = structlog.get_logger(__name__)

_CANCEL_SECONDS = 2.0
"""How long handlers may take to stop at the executor's end before their processes are killed."""
_ANSWERS_SECONDS = 3.0
"""How long the last answers are waited for; with the two before, an end fits into 30 s."""


@dataclass(frozen=True, slots=True)
class _Parts:
    keeper: Keeper
    book: LeaseBook
    pool: HandlerPool
    connection: Connection
    heartbeats: Heartbeats


async def run(settings: ExecutorSettings) -> int:
    """Take leases and run handlers until a signal says to stop.

    Raises:
        StartupFault: Job types, handlers or settings don't fit, or the service refuses this executor.
        CatalogFault: The job types and queues don't fit together.
    """
    selection = _selected(settings)
    clock = SystemClock()
    async with _built(settings, selection, clock) as parts, background(*parts.pool.loops(), clock=clock):
        await parts.pool.ready.wait()
        async with (
            background(*_loops(parts, settings), clock=clock),
            readiness.told(settings.ready_file, parts.connection.welcomed, clock=clock),
        ):
            await until_signalled()
            await _stop(parts, settings)
    return 0


def _loops(parts: _Parts, settings: ExecutorSettings) -> Sequence[Loop]:
    beat = Timetable(idle=timedelta(seconds=settings.progress_seconds))
    return [
        parts.connection.loop(),
        Loop("heartbeats", parts.heartbeats.step, beat),
    ]


async def _stop(parts: _Parts, settings: ExecutorSettings) -> None:
    """Finish what can be finished, give the rest back, and go once all of it is answered."""
    log.info("executor.draining", held=len(parts.book))
    parts.keeper.drain()
    if not await _emptied(parts.book, settings.grace_seconds):
        parts.keeper.stop_all()
        if not await _emptied(parts.book, _CANCEL_SECONDS):
            parts.keeper.kill_all()
            await _emptied(parts.book, _ANSWERS_SECONDS)
    if len(parts.book):
        log.warning("executor.left_unanswered", held=len(parts.book))
    await parts.connection.say_goodbye()
    log.info("executor.stopped")


async def _emptied(book: LeaseBook, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await book.emptied.wait()
    except TimeoutError:
        return False
    return True


def _selected(settings: ExecutorSettings) -> Selection:
    known = catalog.load(settings.job_modules, queues=settings.queues, job_types=settings.job_types)
    return select(
        known,
        queues=settings.serve_queues,
        groups=settings.serve_groups,
        job_types=settings.serve_job_types,
    )


@asynccontextmanager
async def _built(settings: ExecutorSettings, selection: Selection, clock: Clock) -> AsyncIterator[_Parts]:
    token = settings.token.get_secret_value() if settings.token else None
    way = Way(settings.execution_address, call_metadata(token), Tls.told(settings.tls))
    book, outgoing = LeaseBook(selection.room), Outgoing()
    pool = HandlerPool(_setup(settings, selection), processes=settings.handler_processes)
    heartbeats = Heartbeats(book=book, outgoing=outgoing, pool=pool, clock=clock)
    snapshots = Snapshots(way)
    keeper = Keeper(
        book=book,
        outgoing=outgoing,
        pool=pool,
        heartbeats=heartbeats,
        snapshots=snapshots,
        versions={
            each.job_type: (each.input_schema_version, each.output_schema_version)
            for each in selection.definitions
        },
    )
    pool.listened_by(keeper)
    connection = Connection(
        way,
        hello=_hello(settings, selection),
        keeper=keeper,
        book=book,
        outgoing=outgoing,
        heartbeats=heartbeats,
        clock=clock,
        wait_max=timedelta(seconds=settings.reconnect_seconds_max),
    )
    try:
        yield _Parts(keeper, book, pool, connection, heartbeats)
    finally:
        await connection.close()
        await pool.stop()
        await snapshots.close()


def _setup(settings: ExecutorSettings, selection: Selection) -> Setup:
    return Setup(
        job_modules=settings.job_modules,
        job_types=[each.job_type for each in selection.definitions],
        at_once=selection.at_once,
        log_level=settings.log_level,
        log_format=settings.log_format,
    )


def _hello(settings: ExecutorSettings, selection: Selection) -> Hello:
    return Hello(
        executor_name=settings.executor_name,
        incarnation_id=str(uuid4()),
        capabilities=[
            Capability(
                job_type=each.job_type,
                input_schema_versions=[each.input_schema_version],
                output_schema_versions=[each.output_schema_version],
            )
            for each in selection.definitions
        ],
        runtime=f"baton-python/{version('baton-engine')}",
    )
