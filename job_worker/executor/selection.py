"""Which job types an executor announces, and how many leases of each queue it takes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from shared.catalog.catalog import Catalog
from shared.catalog.definition import JobDefinition
from shared.domain.identity import QueueName
from shared.domain.naming import there_are
from shared.runtime.faults import StartupFault


@dataclass(frozen=True, slots=True)
class Selection:
    """What an executor does.

    Attributes:
        definitions: Of the job types that it announces, by name; at least one.
        room: How many leases of each queue it takes at a time.
    """

    definitions: Sequence[JobDefinition]
    room: Mapping[QueueName, int]

    @property
    def at_once(self) -> int:
        """How many leases it takes in all."""
        return sum(self.room.values())


def select(
    catalog: Catalog, *, queues: Collection[str], groups: Collection[str], job_types: Collection[str]
) -> Selection:
    """Select the job types that are named, or whose queue or group is; all if nothing is named.

    Raises:
        StartupFault: A name stands for nothing, or for no job type.
    """
    known_groups = {queue.group for queue in catalog.queues.values() if queue.group}
    faults = [
        *_unknown("queue", queues, catalog.queues),
        *_unknown("group", groups, known_groups),
        *_unknown("job type", job_types, catalog.definitions),
    ]
    everything = not (queues or groups or job_types)
    definitions = [
        each
        for each in catalog.definitions.values()
        if everything
        or each.job_type in job_types
        or each.queue in queues
        or catalog.queues[each.queue].group in groups
    ]
    if not definitions and not faults:
        faults.append("no job type is left to serve")
    if faults:
        raise StartupFault(faults)
    served = sorted({each.queue for each in definitions})
    return Selection(definitions, {name: catalog.queues[name].at_once for name in served})


def _unknown(kind: str, names: Collection[str], known: Collection[str]) -> list[str]:
    return [f"there is no {kind} {name!r}{there_are(known)}" for name in names if name not in known]
