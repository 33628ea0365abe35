"""Ids that sort by the time they were made, and secrets that nobody guesses."""

from __future__ import annotations

import os
import secrets
import time
from uuid import UUID

_SECRET_BYTES = 16
"""128 random bits: out of reach of guessing, short enough for a header or a log-free field."""


def new_id() -> UUID:
    """Make a version 7 UUID (RFC 9562): 48 bits of Unix milliseconds, then 74 random bits.

    Ids made in different milliseconds sort by time, which keeps index inserts at one end; within a
    millisecond their order is random. Nothing may be concluded from the time inside.
    """
    milliseconds = time.time_ns() // 1_000_000
    random_bits = int.from_bytes(os.urandom(10), "big")
    high = (random_bits >> 64) & 0xFFF
    low = random_bits & 0x3FFF_FFFF_FFFF_FFFF
    return UUID(int=(milliseconds & 0xFFFF_FFFF_FFFF) << 80 | 0x7 << 76 | high << 64 | 0b10 << 62 | low)


def new_secret() -> str:
    """Make 128 random bits, as 22 characters of unpadded base64url."""
    return secrets.token_urlsafe(_SECRET_BYTES)
