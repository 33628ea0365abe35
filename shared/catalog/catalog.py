"""All job types and queues of a deployment, checked as a whole before anything starts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType, ModuleType
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveFloat, PositiveInt

from shared.catalog import definition as definitions
from shared.catalog import modules as module_rules
from shared.catalog import queues as queue_rules
from shared.catalog.definition import JobDefinition
from shared.catalog.queues import SHIPPED_QUEUES, QueueOverride
from shared.domain.errors import UnknownJobType
from shared.domain.identity import JobType, QueueName
from shared.domain.leases import LeaseTerms, TypeLimits
from shared.domain.naming import there_are
from shared.domain.queues import Queue
from shared.domain.retries import Backoff, RetryPolicy

SHIPPED_MODULE = "shared.catalog.shipped"
"""The engine's own job types are found like a user's."""

T = TypeVar("T")

_NO_QUEUES: Mapping[str, QueueOverride] = MappingProxyType({})


UNKNOWN_TYPE_POLICY = RetryPolicy(max_retries=2, backoff=Backoff(base=timedelta(seconds=5)))
"""For running jobs of a type that only an older or newer replica knows; as background queues do."""


class CatalogFault(Exception):
    """The job types and queues don't fit together; one sentence for each fault, all of them at once."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(faults))


class JobTypeOverride(BaseModel):
    """What a deployment changes about a job type; what is not set stays."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    timeout_seconds: PositiveFloat | None = None
    """Longest run of one attempt."""
    grace_seconds: PositiveFloat | None = None
    """How long a handler may ignore a cancel or the end of its time."""
    max_retries: NonNegativeInt | None = None
    """Tries after the first."""
    at_once: PositiveInt | None = None
    """Most leases in all."""
    at_once_per_owner: PositiveInt | None = None
    """Most leases of one owner."""
    per_second: PositiveFloat | None = None
    """Most leases granted in a second."""

    def applied(self, definition: JobDefinition) -> JobDefinition:
        """Return the definition with what is set here."""
        changes = {
            "timeout": self.timeout_seconds and timedelta(seconds=self.timeout_seconds),
            "grace": self.grace_seconds and timedelta(seconds=self.grace_seconds),
            "max_retries": self.max_retries,
            "limits": replace(definition.limits, **_set(self._limits())),
        }
        return replace(definition, **_set(changes))

    def _limits(self) -> Mapping[str, Any]:
        return {
            "at_once": self.at_once,
            "at_once_per_owner": self.at_once_per_owner,
            "per_second": self.per_second,
        }


def _set(changes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in changes.items() if value is not None}


_NO_JOB_TYPES: Mapping[str, JobTypeOverride] = MappingProxyType({})


class Catalog:
    """Every job type and queue by name."""

    def __init__(self, job_definitions: Iterable[JobDefinition], queues: Iterable[Queue]) -> None:
        """Check everything and take it in.

        Raises:
            CatalogFault: Something does not fit; nothing was taken in.
        """
        all_definitions, all_queues = tuple(job_definitions), tuple(queues)
        faults = [*queue_rules.faults_of(all_queues), *_faults(all_definitions, all_queues)]
        if faults:
            raise CatalogFault(faults)
        self.queues: Mapping[QueueName, Queue] = MappingProxyType({each.name: each for each in all_queues})
        self.definitions: Mapping[JobType, JobDefinition] = MappingProxyType(
            {each.job_type: each for each in sorted(all_definitions, key=lambda each: each.job_type)}
        )
        self.lease_limits: Mapping[JobType, TypeLimits] = MappingProxyType(
            {each.job_type: limits for each in all_definitions if (limits := each.lease_limits())}
        )
        """How many leases the job types may have that have a limit."""

    def definition(self, job_type: str) -> JobDefinition:
        """Return a job type's definition.

        Raises:
            UnknownJobType: No definition has that name.
        """
        try:
            return self.definitions[JobType(job_type)]
        except KeyError:
            raise UnknownJobType(job_type, self.definitions) from None

    def retry_policy(self, definition: JobDefinition) -> RetryPolicy:
        """Return what a definition, or else its queue, promises about retries."""
        queue = self.queues[definition.queue]
        return RetryPolicy(
            max_retries=queue.max_retries if definition.max_retries is None else definition.max_retries,
            backoff=definition.backoff or queue.backoff,
            retry_timeouts=definition.retry_timeouts,
            losses_max=definition.limits.losses,
            life_max=definition.limits.life,
        )

    def retry_policy_of(self, job_type: JobType) -> RetryPolicy:
        """The same by name; `UNKNOWN_TYPE_POLICY` for a type that is not in this catalog."""
        try:
            return self.retry_policy(self.definition(job_type))
        except UnknownJobType:
            return UNKNOWN_TYPE_POLICY

    def lease_terms(self, definition: JobDefinition) -> LeaseTerms:
        """Return how long leases, runs and graces of a job type are."""
        lease_duration = self.queues[definition.queue].lease_duration
        return LeaseTerms(duration=lease_duration, timeout=definition.timeout, grace=definition.grace)

    def unfed_queues(self) -> Sequence[QueueName]:
        """Return the queues that no job type feeds, by name; may be empty."""
        fed = {definition.queue for definition in self.definitions.values()}
        return sorted(self.queues.keys() - fed)


def load(
    modules: Sequence[str] = (),
    *,
    queues: Mapping[str, QueueOverride] = _NO_QUEUES,
    job_types: Mapping[str, JobTypeOverride] = _NO_JOB_TYPES,
) -> Catalog:
    """Build the catalog from the shipped job types and those of a deployment's own modules.

    Args:
        modules: Packages of a deployment; the submodule `definitions` of each holds `DEFINITIONS`, a
            sequence of JobDefinition, and may hold `QUEUES`, a sequence of Queue.
        queues: What a deployment changes, by queue name.
        job_types: What a deployment changes, by job type.

    Raises:
        CatalogFault: A module can't be imported, or something does not fit.
    """
    faults = list[str]()
    all_queues, all_definitions = [*SHIPPED_QUEUES], list[JobDefinition]()
    for name in (SHIPPED_MODULE, *(f"{each}.definitions" for each in modules)):
        source = module_rules.imported(name, faults)
        all_queues += _listed(source, "QUEUES", Queue, faults)
        all_definitions += _listed(source, "DEFINITIONS", JobDefinition, faults)
    faults += _unknown("queue", queues, {each.name for each in all_queues})
    faults += _unknown("job type", job_types, {each.job_type for each in all_definitions})
    if faults:
        raise CatalogFault(faults)
    return Catalog(
        [
            job_types[each.job_type].applied(each) if each.job_type in job_types else each
            for each in all_definitions
        ],
        [queues[each.name].applied(each) if each.name in queues else each for each in all_queues],
    )


def _listed(source: ModuleType | None, name: str, kind: type[T], faults: list[str]) -> list[T]:
    """Return what a module lists under that name, which it may lack; empty with a fault if it can't be."""
    listed = getattr(source, name, ())
    if isinstance(listed, Collection) and all(isinstance(each, kind) for each in listed):
        return list(listed)
    module = getattr(source, "__name__", "")
    faults.append(f"{name} of the module {module!r} must be a sequence of {kind.__name__}")
    return []


def _unknown(kind: str, names: Iterable[str], known: Collection[str]) -> list[str]:
    return [
        f"settings name the {kind} {each!r}, which does not exist{there_are(known)}"
        for each in names
        if each not in known
    ]


def _faults(job_definitions: Sequence[JobDefinition], queues: Sequence[Queue]) -> list[str]:
    faults = list[str]()
    names = {queue.name for queue in queues}
    seen = set[str]()
    for each in job_definitions:
        if each.job_type in seen:
            faults.append(f"job type {each.job_type!r} is defined twice")
        if each.queue not in names:
            faults.append(f"job type {each.job_type!r}: there is no queue {each.queue!r}{there_are(names)}")
        seen.add(each.job_type)
        faults += definitions.faults_of(each)
    return faults
