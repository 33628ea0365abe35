"""How documents are stored for inputs to refer to; the few bytes that are stored here go within a day."""

from __future__ import annotations

import hashlib
from uuid import UUID

from shared.gen.baton.v1 import job_control_pb2 as pb
from verification.conformance.services.check import Theme
from verification.conformance.services.refusals import fields_of, refused
from verification.conformance.services.target import Target
from verification.unmet import require

_HEADER = pb.UploadInputRequest(header=pb.UploadHeader(media_type="text/plain", file_name="a.txt"))
_DOCUMENT_MEBIBYTES_MAX = 32
_MEBIBYTE = 1 << 20


async def a_document_is_answered_with_its_size_and_hash(target: Target) -> None:
    """An upload is answered with an id, the document's size, and the SHA-256 of all its bytes."""
    uploaded = await target.upload(_HEADER, _chunk(b"one "), _chunk(b""), _chunk(b"two"))
    require(UUID(uploaded.upload_id), "the upload has no id")
    require(uploaded.document_bytes == len(b"one two"), f"it has {uploaded.document_bytes} bytes")
    wanted = hashlib.sha256(b"one two").hexdigest()
    require(uploaded.sha256 == wanted, f"its hash is {uploaded.sha256}")


async def an_upload_without_its_header_is_refused(target: Target) -> None:
    """An upload that does not begin with a header, or has a second one, is INVALID_INPUT."""
    await refused(target.upload(_chunk(b"a")), "INVALID_INPUT", when="no header")
    await refused(target.upload(_HEADER, _HEADER), "INVALID_INPUT", when="two headers")
    await refused(target.upload(), "INVALID_INPUT", when="nothing")
    named = pb.UploadInputRequest(header=pb.UploadHeader(file_name="n" * 256))
    error = await refused(target.upload(named, _chunk(b"a")), "INVALID_INPUT", when="a long name")
    require("header.file_name" in fields_of(error), f"BadRequest names {fields_of(error)}")


async def a_document_over_its_limit_is_refused(target: Target) -> None:
    """A document over 32 MiB is PAYLOAD_TOO_LARGE."""
    part = _chunk(bytes(_MEBIBYTE))
    await refused(target.upload(_HEADER, *[part] * (_DOCUMENT_MEBIBYTES_MAX + 1)), "PAYLOAD_TOO_LARGE")


def _chunk(content: bytes) -> pb.UploadInputRequest:
    return pb.UploadInputRequest(chunk=content)


THEME = Theme(
    "uploading",
    (
        a_document_is_answered_with_its_size_and_hash,
        an_upload_without_its_header_is_refused,
        a_document_over_its_limit_is_refused,
    ),
)
