"""What is done about an attempt's end, in the order in which it becomes durable."""

from __future__ import annotations

from collections.abc import Sequence

from job_worker.operations.reports import Report, ReportAnswer, ReportOutcome, Stopped
from job_worker.sessions.cancel_push import CancelPush
from job_worker.sessions.report_batch import ReportBatch
from job_worker.sessions.sessions import Sessions
from shared.domain.leases import LeaseRef
from tests.support.worker_sessions import a_ref


class Store:
    """Keeps in memory what is made durable, first to last."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, LeaseRef]] = []

    async def record_cancels_seen(self, leases: Sequence[LeaseRef]) -> None:
        self.kept += [("seen", each) for each in leases]

    async def project_results(self, reports: Sequence[Report]) -> list[ReportAnswer]:
        self.kept += [("ended", each.lease) for each in reports]
        return [ReportAnswer(each.lease, ReportOutcome.ACCEPTED) for each in reports]


class NothingWaits:
    """Heartbeats and pieces of which none waits."""

    def drop(self, leases: object) -> None:
        """Nothing to drop."""

    async def flush(self, leases: object) -> None:
        """Nothing to store."""


async def test_that_a_cancel_was_seen_is_recorded_before_its_lease_ends() -> None:
    store = Store()
    cancels = CancelPush(Sessions(), None, store.record_cancels_seen)  # type: ignore[arg-type]
    nothing = NothingWaits()
    reports = ReportBatch(store.project_results, pieces=nothing, heartbeats=nothing, cancels=cancels)  # type: ignore[arg-type]
    stopping, other = a_ref(), a_ref()
    answers: list[ReportAnswer] = []

    reports.add([Report(stopping, Stopped())], answers.append)
    cancels.seen([other, stopping])
    await reports.step()

    assert store.kept == [("seen", stopping), ("ended", stopping)]
    assert [each.lease for each in answers] == [stopping]
