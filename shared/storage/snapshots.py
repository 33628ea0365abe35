"""The inputs of jobs, as they were sent."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from shared.domain.identity import UploadId
from shared.domain.leases import LeaseRef
from shared.storage import tables
from shared.storage.database import Connection


@dataclass(frozen=True, slots=True)
class Snapshot:
    """JSON text, and the document that it refers to."""

    input: bytes
    upload_id: UploadId | None


class Snapshots:
    """One row a job."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def of_lease(self, lease: LeaseRef) -> Snapshot | None:
        """Return the input of a leased job; None if the token is not its current one."""
        snapshots, leases = tables.snapshots, tables.leases
        statement = (
            sa.select(snapshots.c.input, snapshots.c.upload_id)
            .join(leases, leases.c.job_id == snapshots.c.job_id)
            .where(leases.c.job_id == lease.job_id, leases.c.token == lease.token)
        )
        row = (await self._connection.execute(statement)).one_or_none()
        return row and Snapshot(row.input, row.upload_id)
