"""Lists what a job made."""

from __future__ import annotations

from job_api.operations import opaque, paging
from job_api.operations.caller import Caller
from job_api.operations.paging import Page, PageRequest
from job_api.operations.visibility import visible_job
from shared.domain.identity import JobId
from shared.domain.jobs import Artifact
from shared.storage.transactions import Transaction, Transactions

CONTENT_BYTES_MAX = 8 * 1024 * 1024
"""A page ends early where its content would pass this: half of what a message may hold."""

_CONTENTS_AT_ONCE = 50
"""Contents are read in parts of so many, so that a page is never read far beyond its bytes."""


class ListArtifacts:
    """Reads artifacts in order."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def __call__(
        self, caller: Caller, job_id: JobId, page: PageRequest, *, include_content: bool
    ) -> Page[Artifact]:
        """Return a page of artifacts.

        Raises:
            JobNotFound: There is none for this caller.
            InvalidPageToken: The token belongs to another list.
        """
        of = ["artifacts", str(job_id)]
        after = paging.begin(page, of, paging.ordinal, 0)
        async with self._transactions.begin() as transaction:
            await visible_job(transaction, caller, job_id)
            if include_content:
                return await _with_content(transaction, job_id, after, page.size, of)
            found = await transaction.artifacts.page(
                job_id, after=after, limit=page.size + 1, include_content=False
            )
        return paging.ended(found, page.size, of, lambda artifact: artifact.ordinal)


async def _with_content(
    transaction: Transaction, job_id: JobId, after: int, size: int, of: list[str]
) -> Page[Artifact]:
    """Read until the page is full, in number or in bytes; its first artifact is there whatever its size."""

    def behind(artifact: Artifact) -> str:
        return opaque.seal(of, artifact.ordinal)

    shown: list[Artifact] = []
    content_bytes = 0
    while True:
        limit = min(size - len(shown) + 1, _CONTENTS_AT_ONCE)
        found = await transaction.artifacts.page(job_id, after=after, limit=limit, include_content=True)
        for artifact in found:
            content_bytes += len(artifact.content)
            if len(shown) == size or (shown and content_bytes > CONTENT_BYTES_MAX):
                return Page(shown, behind(shown[-1]), behind)
            shown.append(artifact)
        if len(found) < limit:
            return Page(shown, "", behind)
        after = shown[-1].ordinal
