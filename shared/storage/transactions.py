"""Transactions: all that one operation writes, or nothing of it.

Lock order in every transaction: limit rows, which claims alone lock, executor sessions, idempotency keys,
jobs, dispatch rows, leases, days of owners, batches; within each by id. The dispatcher locks dispatch rows
only, and waits for nothing. CancelBatch and RetryBatchItems lock nothing but a key before they are alone with
their batch (`be_alone`); the former locks it before dispatch rows, which others that wait for a batch hold
only of their own jobs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.domain.errors import PlatformUnavailable
from shared.storage.artifacts import Artifacts
from shared.storage.attempts import Attempts
from shared.storage.audit import Audit
from shared.storage.batch_changes import BatchChanges
from shared.storage.batches import Batches
from shared.storage.creation import Creation
from shared.storage.database import Connection, translated
from shared.storage.delivery_failures import DeliveryFailures
from shared.storage.dispatches import Dispatches
from shared.storage.event_feed import EventFeed
from shared.storage.events import Events
from shared.storage.executors import Executors
from shared.storage.explanations import Explanations
from shared.storage.idempotency import IdempotencyKeys
from shared.storage.jobs import Jobs
from shared.storage.jobs_ahead import JobsAhead
from shared.storage.lease_limits import LeaseLimits
from shared.storage.leases import Leases
from shared.storage.outbox_messages import OutboxMessages
from shared.storage.outgoing import OutgoingEvents
from shared.storage.owner_days import OwnerDays
from shared.storage.pauses import Pauses
from shared.storage.pieces import OutputPieces
from shared.storage.queue_figures import QueueFigures
from shared.storage.reruns import Reruns
from shared.storage.retention import Retention
from shared.storage.selections import Selections
from shared.storage.sessions import ExecutorSessions
from shared.storage.snapshots import Snapshots
from shared.storage.state_changes import StateChanges
from shared.storage.uploads import Uploads

RELEASE_SECONDS = 0.5
"""A caller waits so long for its connection's return to the pool. On a server that hangs that takes longer,
and goes on without the caller."""

_REPEATABLE = sa.text("""
select set_config('idle_in_transaction_session_timeout', cast(:milliseconds as text), true),
    set_config('synchronous_commit', 'off', true)
""")


class Transaction:
    """One open transaction, with a repository for each table or idea."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.artifacts = Artifacts(connection)
        self.attempts = Attempts(connection)
        self.audit = Audit(connection)
        self.batch_changes = BatchChanges(connection)
        self.batches = Batches(connection)
        self.creation = Creation(connection)
        self.delivery_failures = DeliveryFailures(connection)
        self.dispatches = Dispatches(connection)
        self.event_feed = EventFeed(connection)
        self.events = Events(connection)
        self.executors = Executors(connection)
        self.explanations = Explanations(connection)
        self.idempotency = IdempotencyKeys(connection)
        self.jobs = Jobs(connection)
        self.jobs_ahead = JobsAhead(connection)
        self.lease_limits = LeaseLimits(connection)
        self.leases = Leases(connection)
        self.outbox_messages = OutboxMessages(connection)
        self.outgoing = OutgoingEvents(connection)
        self.owner_days = OwnerDays(connection)
        self.pauses = Pauses(connection)
        self.pieces = OutputPieces(connection)
        self.queue_figures = QueueFigures(connection)
        self.reruns = Reruns(connection)
        self.retention = Retention(connection)
        self.selections = Selections(connection)
        self.sessions = ExecutorSessions(connection)
        self.snapshots = Snapshots(connection)
        self.states = StateChanges(connection)
        self.uploads = Uploads(connection)

    async def repeatable(self, *, ended_after_silence: timedelta) -> None:
        """Say that all of this transaction is simply done again if it is lost, as what was delivered is.

        So the database ends it if nothing is asked in it for so long, because its process froze: others wait
        for what it has locked, or skip it, for no longer. And its commit does not wait for the disk: nor do
        the claims that wait for its row locks. A crash of the database may lose its last fraction of a
        second, but never one that a lasting commit has built upon, which flushes everything before it.
        """
        milliseconds = str(ended_after_silence // timedelta(milliseconds=1))
        await self.connection.execute(_REPEATABLE, {"milliseconds": milliseconds})


class Transactions:
    """Opens transactions on one pool."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._releases = set[asyncio.Task[None]]()

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Transaction]:
        """Open a transaction: a clean end commits it, an exception rolls it back.

        Raises:
            PlatformUnavailable: No connection could be had, or the commit got no answer; its outcome is
                then unknown, so what was done must be safe to repeat.
        """
        with translated():
            connection = await self._engine.connect()
        try:
            yield Transaction(Connection(connection))
            with translated():
                await connection.commit()
        finally:
            # In a task: a cancel that comes meanwhile must not keep the connection from its pool.
            release = asyncio.create_task(_release(connection))
            self._releases.add(release)
            release.add_done_callback(self._releases.discard)
            await asyncio.wait({release}, timeout=RELEASE_SECONDS)
            if release.done():
                release.result()


async def _release(connection: AsyncConnection) -> None:
    """Give a connection back; what was not committed is rolled back, by the server if it is out of reach."""
    with suppress(PlatformUnavailable), translated():
        await connection.close()
