"""Sends documents in pieces, so that neither side holds one whole message of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import IO

from job_api.client import convert
from job_api.client.calls import Calls
from job_api.client.views import Upload
from shared.gen.baton.v1 import job_control_pb2 as pb

CHUNK_BYTES = 256 << 10
"""A quarter of what one message may hold; larger ones are not faster."""

UPLOAD_TIMEOUT = timedelta(seconds=120)
"""32 MiB at 2 Mbit/s."""


def upload(calls: Calls, document: Path | bytes, *, media_type: str, file_name: str) -> Upload:
    """Store a document. A try that broke leaves at most one that no job refers to, which is removed.

    Raises:
        OSError: The file can't be read.
    """
    header = pb.UploadHeader(media_type=media_type, file_name=file_name or _name(document))

    def attempt(seconds: float) -> pb.UploadInputResponse:
        # gRPC reads in a thread of its own, which may outlive the attempt: each has a source of its own.
        parts = _parts(header, _opened(document))
        return calls.stub.UploadInput(parts, timeout=seconds, metadata=calls.metadata)

    return convert.upload(calls.repeated(attempt, timeout=UPLOAD_TIMEOUT))


def _opened(document: Path | bytes) -> IO[bytes]:
    return BytesIO(document) if isinstance(document, bytes) else document.open("rb")


def _name(document: Path | bytes) -> str:
    return document.name if isinstance(document, Path) else ""


def _parts(header: pb.UploadHeader, source: IO[bytes]) -> Iterator[pb.UploadInputRequest]:
    with source:
        yield pb.UploadInputRequest(header=header)
        while chunk := source.read(CHUNK_BYTES):
            yield pb.UploadInputRequest(chunk=chunk)
