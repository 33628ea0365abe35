"""An executor says hello: its session becomes the only one of its incarnation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from uuid import UUID

from job_worker.operations.attempt_ends import AttemptEnds
from shared.domain.identity import IncarnationId, JobType, SessionId
from shared.domain.leases import LeaseRef
from shared.storage.sessions import VersionPair
from shared.storage.transactions import Transactions
from shared.streams.wake_ups import WakeUps


@dataclass(frozen=True, slots=True)
class Capability:
    """A job type that an executor can do, in any combination of these schema versions."""

    job_type: JobType
    input_schema_versions: frozenset[int]
    output_schema_versions: frozenset[int]


@dataclass(frozen=True, slots=True)
class Hello:
    """Who an executor is, what it can do, and which leases it still holds."""

    executor_name: str
    incarnation_id: IncarnationId
    runtime: str
    capabilities: Sequence[Capability]
    held: Sequence[LeaseRef]


@dataclass(frozen=True, slots=True)
class OpenedSession:
    """A session that stands; kept and lost are what the hello named."""

    session_id: SessionId
    kept: Sequence[LeaseRef]
    lost: Sequence[LeaseRef]


class OpenSession:
    """Replaces the incarnation's session, and gives back what the executor does not name."""

    def __init__(
        self, transactions: Transactions, ends: AttemptEnds, wake_ups: WakeUps, *, new_id: Callable[[], UUID]
    ) -> None:
        self._transactions = transactions
        self._ends = ends
        self._wake_ups = wake_ups
        self._new_id = new_id

    async def __call__(self, hello: Hello) -> OpenedSession:
        """Make the session; a claim for an older one that is under way ends first, and is then given back.

        Raises:
            PlatformUnavailable: The session may stand; the next hello replaces it.
        """
        session_id = SessionId(self._new_id())
        named = [each.token for each in hello.held]
        async with self._transactions.begin() as transaction:
            await transaction.sessions.replace(
                hello.incarnation_id,
                session_id,
                executor_name=hello.executor_name,
                runtime=hello.runtime,
                job_types=[each.job_type for each in hello.capabilities],
                versions=_versions(hello.capabilities),
            )
            unnamed = await transaction.attempts.lock_unnamed(hello.incarnation_id, named=named)
            await transaction.states.end_attempts([self._ends.given_back(each) for each in unnamed])
            kept = await transaction.leases.attach(hello.incarnation_id, session_id, hello.held)
        if unnamed:
            await self._wake_ups.jobs_changed([each.lease.job_id for each in unnamed])
        return OpenedSession(
            session_id,
            kept=[each for each in hello.held if each in kept],
            lost=[each for each in hello.held if each not in kept],
        )


def _versions(capabilities: Iterable[Capability]) -> Mapping[JobType, set[VersionPair]]:
    """Return the versions of each job type; one may be named several times."""
    versions = defaultdict[JobType, set[VersionPair]](set)
    for each in capabilities:
        versions[each.job_type] |= {*product(each.input_schema_versions, each.output_schema_versions)}
    return versions
