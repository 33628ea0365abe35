"""What a projector is: a function that turns an output into rows, in the transaction that ends the job."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

import sqlalchemy as sa
from pydantic import BaseModel

from shared.catalog import json_text
from shared.catalog.catalog import Catalog
from shared.domain.identity import JobId, JobType, Owner
from shared.domain.jobs import Artifact
from shared.runtime.ids import new_id
from shared.storage.creation import NewJob
from shared.storage.transactions import Transaction

PROJECTOR_FACTOR = 2
"""A projector may take this many times as long as each of its statements: it holds up other results."""

_LIMITED = sa.text("""
select set_config('statement_timeout', :statement, true),
    set_config('idle_in_transaction_session_timeout', :silence, true)
""")
_UNLIMITED = sa.text("set local statement_timeout to default")


@dataclass(frozen=True, slots=True)
class ProjectedJob:
    """The job whose output is projected."""

    job_id: JobId
    owner: Owner
    job_type: JobType
    attempt: int


class ProjectionTransaction:
    """The transaction that marks jobs SUCCEEDED, as far as their projectors may use it.

    Several jobs share it. If anything in it fails, all is rolled back, and each job is projected again in a
    transaction of its own; so a projector may run more than once, and only its last run counts.
    """

    def __init__(self, transaction: Transaction, catalog: Catalog) -> None:
        self._transaction = transaction
        self._catalog = catalog
        self._rows = defaultdict[sa.Table, list[Mapping[str, Any]]](list)
        self._jobs = list[NewJob]()

    async def execute(
        self, statement: sa.Executable, parameters: Mapping[str, Any] | None = None
    ) -> sa.CursorResult[Any]:
        """Run a statement on tables of one's own, at once."""
        return await self._transaction.connection.execute(statement, parameters)

    def insert(self, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows of JSON values, ids and times before the transaction ends.

        Rows of all jobs that share the transaction go in one statement for each table, which is why this is
        to be preferred. Every row names the same columns.
        """
        self._rows[table].extend(rows)

    def create_job(
        self, job: ProjectedJob, job_type: str, job_input: BaseModel, *, priority: int | None = None
    ) -> JobId:
        """Make a job that goes on with what `job` began, for the same owner; return its id.

        It counts against what its owner may have, and is made all the same where that is used up.

        Raises:
            UnknownJobType: No definition has that name.
        """
        definition = self._catalog.definition(job_type)
        document = json_text.canonical(job_input.model_dump(mode="json"))
        definition.input_model.model_validate_json(document)
        urgency = definition.default_priority if priority is None else priority
        created = NewJob(
            job_id=JobId(new_id()),
            owner=job.owner,
            created_by=job.owner,
            job_type=definition.job_type,
            queue=definition.queue,
            stream=definition.stream_key(urgency).name,
            priority=urgency,
            input=document,
            input_schema_version=definition.input_schema_version,
            output_schema_version=definition.output_schema_version,
            credential_mode=definition.default_credential_mode,
            labels={},
            start_by=definition.start_by,
        )
        self._jobs.append(created)
        return created.job_id

    async def limit_statements(self, limit: timedelta | None) -> None:
        """End statements that run longer than `limit` from here on; None lifts the limit again.

        The server then bears silence for longer than a projector may take: it ends the transactions of
        processes that are frozen, and must not take a slow projector for one.
        """
        if limit is None:
            await self.execute(_UNLIMITED)
        else:
            silence = limit * (PROJECTOR_FACTOR + 1)
            await self.execute(_LIMITED, {"statement": _setting(limit), "silence": _setting(silence)})

    async def write(self) -> None:
        """Write what the projectors have gathered; theirs to fill, not to call."""
        for table, rows in self._rows.items():
            if rows:
                await self._transaction.connection.execute(_insertion(table, list(rows[0])), _as_json(rows))
        await self._transaction.creation.create_jobs(self._jobs)
        await self._transaction.owner_days.count(Counter(each.owner for each in self._jobs))


Projector: TypeAlias = Callable[
    [ProjectionTransaction, ProjectedJob, BaseModel], Awaitable[Sequence[Artifact]]
]
"""Takes the output as the definition's model; returns the artifacts, numbered from 1 on."""


def _insertion(table: sa.Table, names: Sequence[str]) -> sa.TextClause:
    columns = ", ".join(f'"{table.c[name].name}"' for name in names)
    return sa.text(
        f"insert into {table.fullname} ({columns})"
        f" select {columns} from json_populate_recordset(null::{table.fullname}, cast(:rows as json))"
    )


def _setting(limit: timedelta) -> str:
    return f"{limit // timedelta(milliseconds=1)}ms"


def _as_json(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
    return {"rows": json.dumps([dict(row) for row in rows], default=str)}
