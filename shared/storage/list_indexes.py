"""The indexes by which jobs and batches are listed.

None on `jobs` names what a claim or a success changes, be it a key or a condition: so both rewrite a job on
its own page, and no index is written again. Hence open jobs are found by what waits and runs for them, which
is dispatch rows and leases, and only the indexes of those know of them. Indexes of few jobs, or that all have
their own order, end with the owner, who is looked for inside the index.
"""

from __future__ import annotations

import sqlalchemy as sa

# One owner has ten jobs, another half of all: a plan for whichever values come does not do for both.
PLAN_FOR_VALUES = sa.text("set local plan_cache_mode = force_custom_plan")
"""Goes before the statement of a page, in its transaction."""

UNSUCCESSFUL = "error_code is not null or cancel_request_time is not null or skipping"
"""True of every job that failed or was cancelled, and of those that may."""
LABELLED = "labels <> '{}'"
FIRST_DISPATCH = "event_type = 'job.dispatch' and attempt = 1"
"""True of the dispatch rows of jobs that are QUEUED, whose `create_time` is the job's."""
LATER_DISPATCH = "event_type = 'job.dispatch' and attempt > 1"
"""True of the dispatch rows of jobs that run and wait for another attempt."""

_TRIGRAMS = "gin_trgm_ops"
_TARGETED = "target_type is not null"


def _newest_first(
    name: str, *keys: str, item: str, owner: bool = False, where: str | None = None
) -> sa.Index:
    order = (sa.text("create_time desc"), sa.text(f"{item} desc"))
    return sa.Index(
        name, *keys, *order, *(["owner"] if owner else []), postgresql_where=where and sa.text(where)
    )


def _by_content(name: str, operators: dict[str, str], *, where: str | None = None) -> sa.Index:
    return sa.Index(
        name,
        *operators,
        postgresql_using="gin",
        postgresql_ops=operators,
        postgresql_where=where and sa.text(where),
    )


OF_JOBS = (
    _newest_first("jobs_by_owner", "owner", item="job_id"),
    _newest_first("jobs_by_create_time", item="job_id"),
    sa.Index(
        "jobs_by_batch", "batch_id", "batch_item", "job_id", postgresql_where=sa.text("batch_id is not null")
    ),
    _newest_first("jobs_by_type", "job_type", item="job_id", owner=True),
    _newest_first("jobs_by_queue", "queue", item="job_id", owner=True),
    _newest_first("jobs_by_target_type", "target_type", item="job_id", owner=True, where=_TARGETED),
    _newest_first("jobs_by_target", "target_type", "target_id", item="job_id", where=_TARGETED),
    _newest_first("jobs_unsuccessful", item="job_id", owner=True, where=UNSUCCESSFUL),
    _by_content("jobs_by_labels", {"labels": "jsonb_path_ops"}, where=LABELLED),
    # One for each column, so that a search for text in it is all that says which rows the index has.
    *(
        _by_content(f"jobs_by_{column}_text", {column: _TRIGRAMS}, where=f"{column} is not null")
        for column in ("target_id", "error_code", "error_message")
    ),
)

OF_OUTBOX = (
    _newest_first("outbox_first_by_owner", "owner", item="aggregate_id", where=FIRST_DISPATCH),
    _newest_first("outbox_first_by_time", item="aggregate_id", where=FIRST_DISPATCH),
    sa.Index("outbox_later", "owner", postgresql_where=sa.text(LATER_DISPATCH)),
)

OF_BATCHES = (
    _newest_first("batches_by_owner", "owner", item="batch_id"),
    _newest_first("batches_by_create_time", item="batch_id"),
    _newest_first("batches_by_state", "state", item="batch_id", owner=True),
    _newest_first("batches_by_type", "job_type", item="batch_id", owner=True),
    _newest_first("batches_by_target", "target_type", "target_id", item="batch_id", where=_TARGETED),
    _by_content("batches_by_title", {"title": _TRIGRAMS}),
)
