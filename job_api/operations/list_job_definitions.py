"""Lists the job types that can be asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from pydantic import BaseModel

from job_api.operations import paging
from job_api.operations.paging import Page, PageRequest
from shared.catalog import json_text
from shared.catalog.catalog import Catalog
from shared.catalog.definition import JobDefinition


@dataclass(frozen=True, slots=True)
class ListedDefinition:
    """A job type with what it gets from its queue; the schemas are JSON text."""

    definition: JobDefinition
    max_retries: int
    input_schema: bytes
    output_schema: bytes


class ListJobDefinitions:
    """Reads the catalog; no database is needed."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    async def __call__(self, page: PageRequest) -> Page[ListedDefinition]:
        """Return a page of job types, by name.

        Raises:
            InvalidPageToken: The token belongs to another list.
        """
        of = ["definitions"]
        after = paging.begin(page, of, paging.text, "")
        behind: Sequence[JobDefinition] = [
            each for name, each in self._catalog.definitions.items() if name > after
        ]
        listed = [self._listed(each) for each in behind[: page.size + 1]]
        return paging.ended(listed, page.size, of, lambda each: each.definition.job_type)

    def _listed(self, definition: JobDefinition) -> ListedDefinition:
        return ListedDefinition(
            definition,
            self._catalog.retry_policy(definition).max_retries,
            _schema(definition.input_model),
            _schema(definition.output_model),
        )


def _schema_text(model: type[BaseModel]) -> bytes:
    return json_text.canonical(model.model_json_schema())


_schema: Callable[[type[BaseModel]], bytes] = cache(_schema_text)
