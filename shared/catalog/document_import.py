"""What a `document_import` job takes and gives: one document in, its knowledge items out."""

from __future__ import annotations

import base64
import binascii
from datetime import timedelta
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from shared.catalog.definition import Domain, JobDefinition
from shared.domain.identity import JobType, QueueName

DocumentFormat = Literal["text", "markdown", "html", "pdf"]

TITLE_CHARACTERS_MAX = 300
"""Characters of a title; a longer one is a paragraph."""

ITEM_CHARACTERS_MAX = 4_000
"""Characters of an item's text: about a thousand tokens, what one question or card is made from."""


class DocumentImportInput(BaseModel):
    """One document, by exactly one of `text`, `content_base64` and `upload_id`."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    title: Annotated[str, Field(min_length=1, max_length=TITLE_CHARACTERS_MAX)] | None = None
    """What to call the document; unset means what it calls itself, else its file's name."""
    format: DocumentFormat | None = None
    """Unset means that media type, file name and content decide, in this order."""
    text: str | None = Field(default=None, repr=False)
    """The document as text; a PDF cannot be given so. May be empty."""
    content_base64: str | None = Field(default=None, repr=False)
    """The file's bytes in Base64, for what is small enough for the input; line breaks do not count."""
    upload_id: Annotated[UUID, Field(strict=False)] | None = None
    """An upload made before; its file name and media type travel with it."""

    @field_validator("content_base64")
    @classmethod
    def _is_base64(cls, value: str | None) -> str | None:
        if value is not None:
            _decoded(value)
        return value

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        given = [source for source in (self.text, self.content_base64, self.upload_id) if source is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of text, content_base64 and upload_id")
        if self.text is not None and self.format == "pdf":
            raise ValueError("a PDF is bytes: give content_base64 or upload_id")
        return self

    def content(self) -> bytes | None:
        """Return the bytes that the input itself carries in Base64, if it does."""
        return None if self.content_base64 is None else _decoded(self.content_base64)


class KnowledgeItem(BaseModel):
    """A piece of a document that can be understood by itself."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    ordinal: Annotated[int, Field(ge=1)]
    """1 for the first item of the document, and so on without gaps."""
    heading_path: list[str]
    """The headings that the text stands under, outermost first; empty before the first heading."""
    text: Annotated[str, Field(min_length=1, max_length=ITEM_CHARACTERS_MAX)]
    """The text; of a heading without any text or heading below it, the heading itself."""
    characters: Annotated[int, Field(ge=1)]
    """Unicode code points of `text`."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """SHA-256 of `text` in UTF-8."""
    page: Annotated[int, Field(ge=1)] | None = None
    """The page on which the text starts, 1 for the first; PDF only."""


class DocumentImportOutput(BaseModel):
    """What was found in a document; no items if it is empty."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    title: str | None
    """The title given, else the document's own, else its file's name without the ending."""
    format: DocumentFormat
    """What the document was read as."""
    pages: Annotated[int, Field(ge=0)] | None
    """How many pages it has; PDF only."""
    sections: Annotated[int, Field(ge=0)]
    """How many headings it has."""
    characters: Annotated[int, Field(ge=0)]
    """Of all items' texts together."""
    items: list[KnowledgeItem]
    """In the document's order."""


DEFINITION = JobDefinition(
    job_type=JobType("document_import"),
    label="Document import",
    description="Reads plain text, Markdown, HTML or PDF into knowledge items.",
    domain=Domain.IMPORT,
    queue=QueueName("import"),
    timeout=timedelta(seconds=300),
    input_model=DocumentImportInput,
    output_model=DocumentImportOutput,
    upload_field="upload_id",
    projector="knowledge_items",
    keep_output=False,  # its artifacts hold everything
)


def _decoded(value: str) -> bytes:
    try:
        return base64.b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("is not valid Base64") from None
