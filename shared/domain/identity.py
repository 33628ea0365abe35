"""Names of things: each kind of id is a type of its own."""

from __future__ import annotations

from typing import NewType
from uuid import UUID

JobId = NewType("JobId", UUID)
BatchId = NewType("BatchId", UUID)
UploadId = NewType("UploadId", UUID)
SessionId = NewType("SessionId", UUID)
IncarnationId = NewType("IncarnationId", UUID)
"""One start of an executor. Executors are told apart by it, never by their name."""

Owner = NewType("Owner", str)
JobType = NewType("JobType", str)
QueueName = NewType("QueueName", str)
StreamName = NewType("StreamName", str)
LeaseToken = NewType("LeaseToken", str)
"""Opaque to executors. Layout: the attempt's number, a dot, 22 random characters (see `leases`)."""
