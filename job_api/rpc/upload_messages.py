"""Reads the messages of an upload: a header, then bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator

from job_api.operations.upload_input import UploadCommand
from job_api.rpc import convert
from shared.domain.errors import FieldViolation, InvalidInput, PayloadTooLarge
from shared.gen.baton.v1 import job_control_pb2 as pb


async def header(requests: AsyncIterator[pb.UploadInputRequest]) -> UploadCommand:
    """Read the first message.

    Raises:
        InvalidInput: There is none, or it is no header.
    """
    async for first in requests:
        if first.HasField("header"):
            return convert.upload_command(first.header)
        break
    raise InvalidInput([FieldViolation("header", "must be in the first message")])


async def chunks(
    requests: AsyncIterator[pb.UploadInputRequest], *, chunk_bytes_max: int
) -> AsyncIterator[bytes]:
    """Yield the bytes of all messages behind the header.

    Raises:
        InvalidInput: A message holds no bytes but another header, or nothing.
        PayloadTooLarge: A chunk is over its limit.
    """
    async for message in requests:
        if not message.HasField("chunk"):
            raise InvalidInput([FieldViolation("chunk", "must be in every message but the first")])
        if len(message.chunk) > chunk_bytes_max:
            raise PayloadTooLarge("chunk", chunk_bytes_max, len(message.chunk))
        yield message.chunk
