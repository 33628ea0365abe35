"""Documents in pieces, so that neither side holds one whole message of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import IO

from shared.gen.baton.v1 import job_control_pb2 as pb

CHUNK_BYTES = 256 << 10
"""A quarter of what one message may hold; larger ones are not faster."""

UPLOAD_TIMEOUT = timedelta(seconds=120)
"""32 MiB at 2 Mbit/s."""


@dataclass(frozen=True, slots=True)
class Document:
    """What is uploaded; a path gives the file's name where none is given.

    A try that broke leaves at most one stored document that no job refers to, which is removed.
    """

    source: Path | bytes
    media_type: str
    file_name: str

    def parts(self) -> Iterator[pb.UploadInputRequest]:
        """Read it from its start; each try has a source of its own, for gRPC may read on in a thread.

        Raises:
            OSError: The file can't be opened (at once), or read (later).
        """
        return self._parts(BytesIO(self.source) if isinstance(self.source, bytes) else self.source.open("rb"))

    def _parts(self, opened: IO[bytes]) -> Iterator[pb.UploadInputRequest]:
        name = self.source.name if isinstance(self.source, Path) else ""
        header = pb.UploadHeader(media_type=self.media_type, file_name=self.file_name or name)
        with opened:
            yield pb.UploadInputRequest(header=header)
            while chunk := opened.read(CHUNK_BYTES):
                yield pb.UploadInputRequest(chunk=chunk)
