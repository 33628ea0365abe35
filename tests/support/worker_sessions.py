"""Sessions and leases in memory, without a service around them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from job_worker.operations.claim_leases import GrantedLease
from job_worker.operations.open_session import Capability, Hello, OpenedSession
from job_worker.sessions.session import Session
from shared.catalog.catalog import Catalog, load
from shared.domain.identity import IncarnationId, JobId, JobType, QueueName, SessionId
from shared.domain.leases import Lease, LeaseRef, LeaseTerms, make_token
from shared.runtime.ids import new_id, new_secret

DRILL = QueueName("drill")
CATALOG: Catalog = load()


def a_session(
    credits: int = 0, *, job_types: Sequence[str] = ("synthetic",), frame_bytes_max: int = 4 << 20
) -> Session:
    """A session with credits for the queue `drill`."""
    one = frozenset({1})
    hello = Hello(
        executor_name="executor",
        incarnation_id=IncarnationId(new_id()),
        runtime="",
        capabilities=[Capability(JobType(each), one, one) for each in job_types],
        held=(),
    )
    opened = OpenedSession(SessionId(new_id()), kept=(), lost=())
    session = Session(hello, opened, CATALOG, frame_bytes_max=frame_bytes_max)
    session.add_credits(DRILL, credits)
    return session


def a_ref(attempt: int = 1) -> LeaseRef:
    return LeaseRef(JobId(new_id()), make_token(attempt, new_secret()))


def a_grant(given: bytes = b"{}") -> GrantedLease:
    """A lease as the claim grants it, with an input."""
    lease = Lease(
        ref=a_ref(),
        session_id=SessionId(new_id()),
        attempt=1,
        job_type=JobType("synthetic"),
        queue=DRILL,
        priority=50,
        input_schema_version=1,
        output_schema_version=1,
        input=given,
        input_bytes=len(given),
        document=None,
        traceparent="",
        last_error=None,
        run_alone=False,
        credential_mode="platform_key",
        credential_id="",
        prompt_version="",
    )
    return GrantedLease(lease, LeaseTerms(*(timedelta(seconds=each) for each in (30, 60, 3))), True)
