"""Jobs that have not ended, found by what waits or runs for them.

A job waits as long as its dispatch row is there, and runs as long as its lease is; one of the two is always
there until it ends. Their tables are small and have indexes for this, so that `jobs` needs none that every
start or end would have to write.
"""

from __future__ import annotations

from shared.storage.list_indexes import FIRST_DISPATCH, LATER_DISPATCH


def count(owner: str, *, at_most: str) -> str:
    """Render how many jobs of an owner have not ended, counted up to a limit.

    Args:
        owner: An expression for the owner.
        at_most: An expression for the limit; as many index entries are read.
    """
    return f"""(
        select count(*) from (
            select from outbox where {FIRST_DISPATCH} and outbox.owner = {owner}
            union all
            select from outbox where {LATER_DISPATCH} and outbox.owner = {owner}
            union all
            select from leases where leases.owner = {owner}
            limit {at_most}
        ) as open_jobs)"""
