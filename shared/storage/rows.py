"""Many rows into one statement, and rows back into the domain's values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shared.domain.jobs import JobError
from shared.domain.leases import LeaseRef


def unnested(columns_and_types: Mapping[str, str], alias: str) -> str:
    """Render a FROM item that turns one array parameter for each column into rows."""
    arrays = ", ".join(f"cast(:{name} as {kind}[])" for name, kind in columns_and_types.items())
    return f"unnest({arrays}) as {alias}({', '.join(columns_and_types)})"


def columns(rows: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> dict[str, list[Any]]:
    """Turn rows into one array for each column, as `unnested` reads them."""
    return {name: [row[name] for row in rows] for name in names}


LEASE_COLUMNS = {"job_id": "uuid", "token": "text"}
"""What names a lease, for `unnested`."""


def lease_columns(leases: Sequence[LeaseRef]) -> dict[str, list[Any]]:
    """Turn leases into one array for each of `LEASE_COLUMNS`."""
    return {"job_id": [each.job_id for each in leases], "token": [each.token for each in leases]}


def error_of(row: Any) -> JobError | None:
    """Read the error out of a row with `error_code`, `error_message` and `error_internal`."""
    if row.error_code is None:
        return None
    return JobError(row.error_code, row.error_message or "", row.error_internal or "")


def error_columns(error: JobError | None) -> dict[str, str | None]:
    """Turn an error into the three columns that hold it; all null if there is none."""
    return {
        "error_code": error.code if error else None,
        "error_message": error.message if error else None,
        "error_internal": error.internal_message if error else None,
    }
