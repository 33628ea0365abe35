"""Grants leases for what stream entries pointed at, for all sessions of a replica in one statement."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from shared.catalog.catalog import Catalog
from shared.domain.identity import IncarnationId, JobId, JobType, SessionId
from shared.domain.leases import ClaimRequest, Lease, LeaseTerms, make_token
from shared.storage.transactions import Transactions


@dataclass(frozen=True, slots=True)
class Claimant:
    """The session that a lease is for."""

    session_id: SessionId
    incarnation_id: IncarnationId
    executor_name: str


@dataclass(frozen=True, slots=True)
class Wish:
    """An attempt that a session would run."""

    job_id: JobId
    attempt: int
    job_type: JobType
    claimant: Claimant


@dataclass(frozen=True, slots=True)
class GrantedLease:
    """A lease with what its definition says about running it."""

    lease: Lease
    terms: LeaseTerms
    cancellable: bool


class ClaimLeases:
    """Whoever claims first has it; everybody else is refused by the same statement."""

    def __init__(
        self,
        transactions: Transactions,
        catalog: Catalog,
        *,
        new_secret: Callable[[], str],
        tell_changed: Callable[[Collection[JobId]], None],
    ) -> None:
        """Begin; `tell_changed` is called after a commit, and must not hold up those who wait for leases."""
        self._transactions = transactions
        self._catalog = catalog
        self._new_secret = new_secret
        self._tell_changed = tell_changed

    async def __call__(self, wishes: Sequence[Wish]) -> list[GrantedLease]:
        """Grant what may be granted, in no order; the others are refused.

        Args:
            wishes: Of known job types, a job at most once; may be empty.

        Raises:
            PlatformUnavailable: Leases may have been granted that nobody hears of; they go back unaccepted.
        """
        if not wishes:
            return []
        async with self._transactions.begin() as transaction:
            leases = await transaction.states.claim([self._request(each) for each in wishes])
        self._tell_changed([each.ref.job_id for each in leases])
        return [self._granted(each) for each in leases]

    def _request(self, wish: Wish) -> ClaimRequest:
        return ClaimRequest(
            job_id=wish.job_id,
            attempt=wish.attempt,
            token=make_token(wish.attempt, self._new_secret()),
            session_id=wish.claimant.session_id,
            incarnation_id=wish.claimant.incarnation_id,
            executor_name=wish.claimant.executor_name,
            terms=self._catalog.lease_terms(self._catalog.definition(wish.job_type)),
            limits=self._catalog.lease_limits.get(wish.job_type),
        )

    def _granted(self, lease: Lease) -> GrantedLease:
        definition = self._catalog.definition(lease.job_type)
        return GrantedLease(lease, self._catalog.lease_terms(definition), definition.cancellable)
