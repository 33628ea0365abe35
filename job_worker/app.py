"""The worker service, put together: its parts, its loops with their timetables, and their nesting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import structlog

from job_worker.operations.attempt_ends import AttemptEnds
from job_worker.operations.claim_leases import ClaimLeases
from job_worker.operations.end_session import EndSession
from job_worker.operations.find_cancels import FindCancels
from job_worker.operations.find_replaced_sessions import FindReplacedSessions
from job_worker.operations.get_snapshot import GetSnapshot
from job_worker.operations.open_session import OpenSession
from job_worker.operations.project_results import ProjectResults
from job_worker.operations.projection import Projection
from job_worker.operations.record_cancels_seen import RecordCancelsSeen
from job_worker.operations.record_heartbeats import RecordHeartbeats
from job_worker.operations.record_pulse import RecordPulse
from job_worker.operations.store_pieces import StorePieces
from job_worker.projectors import registry
from job_worker.projectors.projector import Projector
from job_worker.rpc.execution_servicer import SCOPES, SERVICE_NAME, ExecutionServicer
from job_worker.rpc.limits import ExecutionLimits
from job_worker.sessions.cancel_push import CancelPush
from job_worker.sessions.changed_jobs import ChangedJobs
from job_worker.sessions.demand import DEMAND_INTERVAL, Demand
from job_worker.sessions.heartbeat_batch import HeartbeatBatch
from job_worker.sessions.hint_relay import HintRelay
from job_worker.sessions.lease_feed import LeaseFeed
from job_worker.sessions.limited_streams import LimitedStreams
from job_worker.sessions.piece_batch import PieceBatch
from job_worker.sessions.pulse import Pulse
from job_worker.sessions.reception import Reception
from job_worker.sessions.report_batch import ReportBatch
from job_worker.sessions.session_watch import SessionWatch
from job_worker.sessions.sessions import Sessions
from job_worker.settings import WorkerSettings
from shared.catalog import catalog as catalogs
from shared.catalog.catalog import Catalog
from shared.domain.errors import PlatformUnavailable
from shared.domain.leases import PULSE_INTERVAL, PULSE_TOLERANCE
from shared.gen.baton.v1 import execution_service_pb2_grpc
from shared.rpc.entrance import entrance_of
from shared.rpc.server import Entrance, OpenServer, Service, open_server, serving
from shared.runtime.clock import Clock, SystemClock
from shared.runtime.ids import new_id, new_secret
from shared.runtime.loops import Backoff, Loop, Step, Timetable, background
from shared.runtime.processes import until_signalled
from shared.storage.database import COMMAND_SECONDS, open_engine
from shared.storage.schema import until_usable
from shared.storage.transactions import Transactions
from shared.streams.channels import Channel
from shared.streams.connection import open_redis
from shared.streams.lease_streams import LeaseStreams
from shared.streams.wake_ups import Hints, WakeUps

log = structlog.get_logger(__name__)

_CALL_SECONDS_MAX = 30.0
"""For a report without a session whose caller set no deadline: a batch and its slowest projector."""
_ANSWER_SECONDS = 1.0
"""A projector's statement that met its own limit is reported within this; no other wait may end first."""
_STOP_SECONDS = 5.0
"""What ending the last streams may take after the drain."""

_SOON = Backoff(base=timedelta(milliseconds=100), cap=timedelta(seconds=2))
"""For what executors wait for: they come back with the database, and not half a minute later."""

_LOOK_ANYWAY = timedelta(seconds=5)
"""What is woken by an event looks so often all the same; of cancels, a hint may be lost."""
_LEASE_FEED_IDLE = timedelta(milliseconds=500)
"""An entry whose hint was lost waits no longer than this for its lease."""
_TAKE_OVER_IDLE = timedelta(seconds=5)
"""Entries of a dead replica wait for seconds in any case, until they count as left."""
_SESSION_WATCH_IDLE = timedelta(seconds=2)
"""A replaced session gets no lease any more; so long its stream may still stand."""
_DEPARTURES_IDLE = timedelta(seconds=1)
"""A goodbye whose last report is not durable yet is looked after again this soon."""


async def run(settings: WorkerSettings) -> int:
    """Serve until told to stop; returns the exit code."""
    async with service(settings):
        await until_signalled()
    return 0


@asynccontextmanager
async def service(settings: WorkerSettings) -> AsyncIterator[OpenServer]:
    """Serve inside the block; at its end drain and stop, then the loops, then the connections.

    Raises:
        StartupFault: It can't serve as it is set up.
        CatalogFault: The job types and queues don't fit together.
    """
    catalog = catalogs.load(settings.job_modules, queues=settings.queues, job_types=settings.job_types)
    projectors = registry.load(catalog, settings.job_modules)
    entrance = await entrance_of(settings.execution_address, settings)
    log.info("catalog.loaded", job_types=len(catalog.definitions), unfed_queues=catalog.unfed_queues())
    async with (
        open_engine(
            settings.database_url,
            pool_size=settings.database_pool_size,
            command_seconds=max(COMMAND_SECONDS, settings.sessions.projection_seconds_max + _ANSWER_SECONDS),
        ) as engine,
        open_redis(str(settings.redis_url)) as redis,
        WakeUps(redis, prefix=settings.redis_prefix).listen(
            Channel.STREAMS_FILLED, Channel.CANCELS_REQUESTED
        ) as hints,
    ):
        await until_usable(engine)
        ground = _Ground(
            settings,
            catalog,
            AttemptEnds(catalog),
            Transactions(engine),
            LeaseStreams(redis, prefix=settings.redis_prefix),
            WakeUps(redis, prefix=settings.redis_prefix),
        )
        parts = _parts(ground, projectors)
        opened = _opened(settings, parts, entrance)
        pulse = Pulse(RecordPulse(ground.transactions, tolerance=PULSE_TOLERANCE), opened.health.set_serving)
        grace = timedelta(seconds=settings.sessions.drain_seconds + _STOP_SECONDS)
        async with (
            background(*_loops(settings, parts, hints, pulse)),
            serving(opened, grace=grace, drain=parts.reception.drain),
        ):
            yield opened


@dataclass(frozen=True, slots=True)
class _Ground:
    """What every part of the service stands on."""

    settings: WorkerSettings
    catalog: Catalog
    ends: AttemptEnds
    transactions: Transactions
    streams: LeaseStreams
    wake_ups: WakeUps

    @property
    def drain_time(self) -> timedelta:
        return timedelta(seconds=self.settings.sessions.drain_seconds)


@dataclass(frozen=True, slots=True)
class _Parts:
    sessions: Sessions
    changed_jobs: ChangedJobs
    heartbeats: HeartbeatBatch
    pieces: PieceBatch
    reports: ReportBatch
    cancels: CancelPush
    demand: Demand
    feed: LeaseFeed
    watch: SessionWatch
    reception: Reception
    servicer: ExecutionServicer


def _parts(ground: _Ground, projectors: Mapping[str, Projector]) -> _Parts:
    transactions, streams, wake_ups = ground.transactions, ground.streams, ground.wake_ups
    clock, replica, sessions = SystemClock(), str(new_id()), Sessions()
    changed_jobs = ChangedJobs(wake_ups)
    heartbeats = HeartbeatBatch(RecordHeartbeats(transactions, wake_ups))
    pieces = PieceBatch(StorePieces(transactions, wake_ups))
    cancels = CancelPush(sessions, FindCancels(transactions), RecordCancelsSeen(transactions, wake_ups))
    reports = ReportBatch(
        _project_results(ground, projectors, changed_jobs),
        pieces=pieces,
        heartbeats=heartbeats,
        cancels=cancels,
    )
    demand = Demand(sessions, streams, replica=replica, clock=clock)
    claim_leases = ClaimLeases(
        transactions, ground.catalog, new_secret=new_secret, tell_changed=changed_jobs.note
    )
    limited = LimitedStreams(ground.catalog.lease_limits.keys(), clock, wake=sessions.credits_added)
    reception = Reception(
        sessions,
        ground.catalog,
        OpenSession(transactions, ground.ends, wake_ups, new_id=new_id),
        EndSession(transactions, ground.ends, wake_ups),
        heartbeats=heartbeats,
        pieces=pieces,
        reports=reports,
        cancels=cancels,
        frame_bytes_max=ground.settings.sessions.frame_bytes_max,
        drain_time=ground.drain_time,
    )
    return _Parts(
        sessions=sessions,
        changed_jobs=changed_jobs,
        heartbeats=heartbeats,
        pieces=pieces,
        reports=reports,
        cancels=cancels,
        demand=demand,
        feed=LeaseFeed(sessions, streams, claim_leases, demand, reports, limited=limited, replica=replica),
        watch=_watch(ground, sessions, clock),
        reception=reception,
        servicer=ExecutionServicer(reception, reports, GetSnapshot(transactions), _limits(ground.settings)),
    )


def _project_results(
    ground: _Ground, projectors: Mapping[str, Projector], changed_jobs: ChangedJobs
) -> ProjectResults:
    limits = ground.settings.sessions
    projection = Projection(
        ground.catalog, projectors, statement_time_max=timedelta(seconds=limits.projection_seconds_max)
    )
    return ProjectResults(
        ground.transactions,
        ground.ends,
        projection,
        output_bytes_max=limits.output_bytes_max,
        tell_changed=changed_jobs.note,
    )


def _watch(ground: _Ground, sessions: Sessions, clock: Clock) -> SessionWatch:
    return SessionWatch(
        sessions,
        FindReplacedSessions(ground.transactions),
        age_max=timedelta(seconds=ground.settings.sessions.age_seconds),
        drain_time=ground.drain_time,
        clock=clock,
    )


def _limits(settings: WorkerSettings) -> ExecutionLimits:
    limits = settings.sessions
    return ExecutionLimits(
        frame_bytes_max=limits.frame_bytes_max,
        output_bytes_max=limits.output_bytes_max,
        piece_bytes_max=limits.piece_bytes_max,
        progress_message_characters_max=limits.progress_message_characters_max,
    )


def _opened(settings: WorkerSettings, parts: _Parts, entrance: Entrance) -> OpenServer:
    add_to = partial(execution_service_pb2_grpc.add_ExecutionServiceServicer_to_server, parts.servicer)
    return open_server(
        settings.execution_address,
        [Service(SERVICE_NAME, add_to, SCOPES)],
        entrance=entrance,
        message_bytes_max=settings.sessions.frame_bytes_max,
        call_time_max=timedelta(seconds=_CALL_SECONDS_MAX),
    )


def _loops(settings: WorkerSettings, parts: _Parts, hints: Hints, pulse: Pulse) -> Sequence[Loop]:
    sessions, cancels = parts.sessions, parts.cancels
    relay = HintRelay(hints, streams_filled=sessions.credits_added, cancels=cancels.wake)
    flush = timedelta(seconds=settings.sessions.heartbeat_flush_seconds)
    return (
        _loop("pulse", pulse.step, PULSE_INTERVAL),
        _loop("heartbeats", parts.heartbeats.step, flush),
        *(
            _loop(f"reports-{lane}", parts.reports.step, _LOOK_ANYWAY, added)
            for lane, added in enumerate(parts.reports.added, start=1)
        ),
        _loop("pieces", parts.pieces.step, _LOOK_ANYWAY, parts.pieces.added),
        _loop("lease-feed", parts.feed.step, _LEASE_FEED_IDLE, sessions.credits_added),
        _loop("lease-take-over", parts.feed.take_over, _TAKE_OVER_IDLE),
        _loop("demand", parts.demand.step, DEMAND_INTERVAL, sessions.demand_changed),
        _loop("cancels", cancels.step, _LOOK_ANYWAY, cancels.wake),
        _loop("session-watch", parts.watch.step, _SESSION_WATCH_IDLE),
        _loop("departures", parts.reception.step, _DEPARTURES_IDLE, parts.reception.departed),
        _loop("hints", relay.step, timedelta(0)),
        _loop("changed-jobs", parts.changed_jobs.step, _LOOK_ANYWAY, parts.changed_jobs.noted),
    )


def _loop(name: str, step: Step, idle: timedelta, wake: asyncio.Event | None = None) -> Loop:
    return Loop(name, step, Timetable(idle, transient=(PlatformUnavailable,), backoff=_SOON), wake)
