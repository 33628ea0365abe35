"""Builds an API process: JobControl, and the loops that move jobs when nobody calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

import structlog

from job_api.batch_operations import batch_operations
from job_api.loops.database_probe import DatabaseProbe
from job_api.loops.dispatch_sweep import DispatchSweep
from job_api.loops.event_dispatcher import EventDispatcher
from job_api.loops.event_numbering import EventNumbering
from job_api.loops.lease_reaper import LeaseReaper
from job_api.loops.outbox_dispatcher import OutboxDispatcher
from job_api.loops.retention import Retention
from job_api.loops.start_by_sweep import StartBySweep
from job_api.loops.watch_hints import WatchHints
from job_api.operations.cancel_job import CancelJob
from job_api.operations.cancel_jobs import CancelJobs
from job_api.operations.create_jobs import CreateJob, CreateJobs
from job_api.operations.explain_job import ExplainJob
from job_api.operations.get_job import GetJob
from job_api.operations.get_job_output import GetJobOutput
from job_api.operations.list_artifacts import ListArtifacts
from job_api.operations.list_attempts import ListAttempts
from job_api.operations.list_audit_records import ListAuditRecords
from job_api.operations.list_events import ListEvents
from job_api.operations.list_executors import ListExecutors
from job_api.operations.list_job_definitions import ListJobDefinitions
from job_api.operations.list_jobs import ListJobs
from job_api.operations.list_outbox_messages import ListOutboxMessages
from job_api.operations.list_queues import ListQueues
from job_api.operations.pause import PauseWork
from job_api.operations.resend_outbox_messages import ResendOutboxMessages
from job_api.operations.resume import ResumeWork
from job_api.operations.retry_job import RetryJob
from job_api.operations.retry_jobs import RetryJobs
from job_api.operations.upload_input import UploadInput
from job_api.operations.watch_events import WatchEvents
from job_api.operations.watch_job import WatchJob
from job_api.operations.watch_jobs import WatchJobs
from job_api.parts import Parts, made
from job_api.rpc.calls import RequestLimits
from job_api.rpc.job_control_servicer import (
    SCOPES,
    SERVICE_NAME,
    JobControlServicer,
    Operations,
)
from job_api.rpc.operator_servicer import OperatorOperations
from job_api.settings import ApiSettings
from shared.catalog import catalog as catalogs
from shared.catalog.catalog import Catalog
from shared.domain.errors import PlatformUnavailable
from shared.gen.baton.v1 import job_control_pb2_grpc
from shared.rpc.entrance import entrance_of
from shared.rpc.server import Entrance, OpenServer, Service, open_server, serving
from shared.runtime.ids import new_id
from shared.runtime.loops import Backoff, Loop, Step, Timetable, background
from shared.runtime.processes import until_signalled
from shared.storage.database import open_engine
from shared.storage.schema import until_usable
from shared.storage.transactions import Transactions
from shared.streams.channels import Channel
from shared.streams.connection import open_redis
from shared.streams.wake_ups import Hints

log = structlog.get_logger(__name__)

_AWAY = Backoff(base=timedelta(seconds=0.2), cap=timedelta(seconds=2))
"""While Postgres or Redis is away a loop looks again this soon: work waits for it."""

_GATHERING = timedelta(milliseconds=20)
"""What happens to watched jobs within it is read together: however many watch, no more than fifty reads a
second."""

_ANSWER_WITHIN = timedelta(seconds=1)
"""A database that is silent for so long is away, as far as new calls are concerned."""


async def run(settings: ApiSettings) -> int:
    """Serve until SIGINT or SIGTERM.

    Raises:
        StartupFault: The database is not migrated, or the address can't be had, or is open to everyone
            without identity.
        CatalogFault: The job types and queues don't fit together.
    """
    async with service(settings):
        await until_signalled()
    return 0


@asynccontextmanager
async def service(settings: ApiSettings) -> AsyncIterator[OpenServer]:
    """Serve inside the block; at its end drain and stop, then the loops, then the connections.

    Before the database was there once, nothing listens: no probe and no load balancer takes it for ready.

    Raises:
        StartupFault: See `run`.
        CatalogFault: See `run`.
    """
    catalog = _catalog(settings)
    entrance = await entrance_of(settings.control_address, settings)
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(
            open_engine(settings.database_url, pool_size=settings.database_pool_size)
        )
        await until_usable(engine)
        probe_engine = await stack.enter_async_context(open_engine(settings.database_url, pool_size=1))
        redis = await stack.enter_async_context(open_redis(str(settings.redis_url)))
        parts = made(settings, catalog, Transactions(engine), redis)
        opened = _opened(parts, entrance)
        probe = DatabaseProbe(
            Transactions(probe_engine), opened.health.set_serving, answer_within=_ANSWER_WITHIN
        )
        hints = await stack.enter_async_context(
            parts.wake_ups.listen(Channel.JOBS_CHANGED, Channel.BATCHES_CHANGED, heeded=parts.are_any_watched)
        )
        await stack.enter_async_context(background(*_loops(parts, hints, probe)))
        await stack.enter_async_context(
            serving(opened, grace=timedelta(seconds=settings.grace_seconds), drain=parts.drain)
        )
        yield opened


def _catalog(settings: ApiSettings) -> Catalog:
    catalog = catalogs.load(settings.job_modules, queues=settings.queues, job_types=settings.job_types)
    unfed = catalog.unfed_queues()
    if unfed:
        log.warning("queues.unfed", queues=list(unfed))
    return catalog


def _opened(parts: Parts, entrance: Entrance) -> OpenServer:
    limits = parts.settings.limits
    servicer = JobControlServicer(
        _operations(parts),
        RequestLimits(
            labels_max=limits.labels_max,
            batch_items_max=limits.batch_items_max,
            jobs_per_call_max=limits.jobs_per_call_max,
            chunk_bytes_max=limits.chunk_bytes_max,
        ),
    )
    return open_server(
        parts.settings.control_address,
        [
            Service(
                SERVICE_NAME,
                lambda server: job_control_pb2_grpc.add_JobControlServicer_to_server(servicer, server),
                SCOPES,
            )
        ],
        entrance=entrance,
        message_bytes_max=limits.request_bytes_max,
        call_time_max=timedelta(seconds=limits.call_seconds),
    )


def _operations(parts: Parts) -> Operations:
    transactions, limits = parts.transactions, parts.settings.limits
    create_jobs = CreateJobs(transactions, parts.requests, parts.creating)
    return Operations(
        create_job=CreateJob(create_jobs),
        create_jobs=create_jobs,
        upload_input=UploadInput(transactions, new_id=new_id, document_bytes_max=limits.document_bytes_max),
        get_job=GetJob(transactions),
        get_job_output=GetJobOutput(transactions),
        list_jobs=ListJobs(transactions),
        list_attempts=ListAttempts(transactions),
        list_artifacts=ListArtifacts(transactions),
        list_job_definitions=ListJobDefinitions(parts.catalog),
        list_events=ListEvents(transactions),
        cancel_job=CancelJob(transactions, parts.catalog, parts.wake_ups),
        cancel_jobs=CancelJobs(transactions, parts.catalog, parts.wake_ups),
        retry_job=RetryJob(transactions, parts.catalog, parts.creating),
        retry_jobs=RetryJobs(transactions, parts.catalog, parts.creating),
        watch_job=WatchJob(transactions, parts.feed, keep_alive=parts.keep_alive),
        watch_jobs=WatchJobs(parts.live_jobs, keep_alive=parts.keep_alive),
        watch_events=WatchEvents(transactions, parts.event_feed, keep_alive=parts.keep_alive),
        for_operators=_operator_operations(parts),
        about_batches=batch_operations(parts),
    )


def _operator_operations(parts: Parts) -> OperatorOperations:
    return OperatorOperations(
        explain_job=ExplainJob(parts.transactions, parts.streams, parts.catalog.lease_limits),
        list_queues=ListQueues(parts.transactions, parts.streams, parts.catalog),
        pause=PauseWork(parts.transactions, parts.catalog),
        resume=ResumeWork(parts.transactions, parts.catalog, wake_dispatcher=parts.wake_dispatcher),
        list_executors=ListExecutors(parts.transactions),
        list_outbox_messages=ListOutboxMessages(parts.transactions),
        resend_outbox_messages=ResendOutboxMessages(
            parts.transactions, wake_dispatcher=parts.wake_dispatcher
        ),
        list_audit_records=ListAuditRecords(parts.transactions),
    )


def _loops(parts: Parts, hints: Hints, probe: DatabaseProbe) -> list[Loop]:
    times, transactions, wake_ups = parts.settings.loops, parts.transactions, parts.wake_ups
    dispatcher = OutboxDispatcher(transactions, parts.streams, parts.catalog.lease_limits)
    sweep = DispatchSweep(
        transactions, parts.streams, unclaimed_age=timedelta(seconds=times.unclaimed_seconds)
    )
    reaper = LeaseReaper(transactions, wake_ups, parts.catalog, wake_dispatcher=parts.wake_dispatcher)
    numbering = EventNumbering(transactions, wake=[parts.wake_event_dispatcher, parts.wake_event_feed])
    events = EventDispatcher(transactions, parts.event_copy)
    retention = Retention(transactions, events_kept_for=timedelta(days=parts.settings.event_days))
    watch_hints = WatchHints(hints, of_jobs=(parts.feed, parts.live_jobs), of_batches=parts.batch_feed)
    poll_seconds = parts.settings.watch.poll_seconds
    return [
        _loop("outbox-dispatcher", dispatcher.step, times.dispatch_seconds, parts.wake_dispatcher),
        _loop("event-numbering", numbering.step, times.numbering_seconds),
        _loop("event-dispatcher", events.step, times.events_seconds, parts.wake_event_dispatcher),
        _loop("event-feed", parts.event_feed.step, poll_seconds, parts.wake_event_feed),
        _loop("dispatch-sweep", sweep.step, times.sweep_seconds),
        _loop("lease-reaper", reaper.step, times.reaper_seconds),
        _loop("start-by-sweep", StartBySweep(transactions, wake_ups).step, times.start_by_seconds),
        _loop("retention", retention.step, times.retention_seconds),
        _loop("job-poll", parts.feed.poll, poll_seconds),
        _loop("job-feed", parts.feed.step, poll_seconds, parts.wake_feed, rest=_GATHERING),
        _loop("live-poll", parts.live_jobs.poll, poll_seconds),
        _loop("live-jobs", parts.live_jobs.step, poll_seconds, parts.wake_live_jobs, rest=_GATHERING),
        _loop("batch-poll", parts.batch_feed.poll, poll_seconds),
        _loop("batch-feed", parts.batch_feed.step, poll_seconds, parts.wake_batch_feed, rest=_GATHERING),
        _loop("watch-hints", watch_hints.step, 0),
        _loop("database-probe", probe.step, times.probe_seconds),
    ]


def _loop(
    name: str,
    step: Step,
    idle_seconds: float,
    wake: asyncio.Event | None = None,
    *,
    rest: timedelta = timedelta(0),
) -> Loop:
    timetable = Timetable(
        idle=timedelta(seconds=idle_seconds), transient=(PlatformUnavailable,), backoff=_AWAY, rest=rest
    )
    return Loop(name, step, timetable, wake)
