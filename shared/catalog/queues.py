"""The queues that ship, and how a deployment changes them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveFloat, PositiveInt

from shared.domain.identity import QueueName
from shared.domain.queues import Queue
from shared.domain.retries import Backoff

MEDIA_QUEUES = {
    "script": ("script_generate",),
    "image": ("image_matting", "image_render"),
    "video": ("video_keyframe", "video_shot", "video_compose"),
    "delivery": ("delivery_zip", "export_package"),
    "verify": ("media_verify",),
}
"""The media queues by group; each is named after its one job type."""


def _queue(name: str, *, group: str = "", at_once: int, lease: int, tries: int, backoff: int) -> Queue:
    return Queue(
        name=QueueName(name),
        group=group,
        at_once=at_once,
        lease_duration=timedelta(seconds=lease),
        max_retries=tries - 1,
        backoff=Backoff(base=timedelta(seconds=backoff)),
    )


SHIPPED_QUEUES: tuple[Queue, ...] = (
    _queue("ai-interactive", group="ai", at_once=2, lease=30, tries=2, backoff=2),
    _queue("ai-background", group="ai", at_once=1, lease=60, tries=3, backoff=5),
    *(
        _queue(name, group=group, at_once=2, lease=60, tries=3, backoff=5)
        for group, names in MEDIA_QUEUES.items()
        for name in names
    ),
    _queue("import", at_once=2, lease=60, tries=3, backoff=5),
    _queue("drill", at_once=64, lease=30, tries=3, backoff=1),
    _queue("maintenance", at_once=1, lease=60, tries=3, backoff=5),
)


class QueueOverride(BaseModel):
    """What a deployment changes about a queue; what is not set stays."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    at_once: PositiveInt | None = None
    """Leases that one executor takes at a time."""
    lease_seconds: PositiveFloat | None = None
    """The lease time. Heartbeats come every third of it."""
    max_retries: NonNegativeInt | None = None
    """Tries after the first."""
    backoff_seconds: PositiveFloat | None = None
    """Bound of the first wait; the next ones double."""

    def applied(self, queue: Queue) -> Queue:
        """Return the queue with what is set here."""
        changes = {
            "at_once": self.at_once,
            "max_retries": self.max_retries,
            "lease_duration": self.lease_seconds and timedelta(seconds=self.lease_seconds),
            "backoff": self.backoff_seconds
            and replace(queue.backoff, base=timedelta(seconds=self.backoff_seconds)),
        }
        return replace(queue, **{name: value for name, value in changes.items() if value is not None})  # type: ignore[arg-type]


def faults_of(queues: Iterable[Queue]) -> Iterable[str]:
    """Yield a sentence for each queue that can't be used."""
    seen = set[QueueName]()
    for queue in queues:
        if queue.name in seen:
            yield f"queue {queue.name!r} is defined twice"
        if not queue.name or ":" in queue.name or "{" in queue.name:
            yield f"queue {queue.name!r}: a name holds no ':' and no '{{', and is not empty"
        seen.add(queue.name)
