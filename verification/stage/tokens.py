"""Tokens that the suite signs itself, as anyone may who holds the secret."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta

import jwt

READ = "jobs.read"
WRITE = "jobs.write"
ON_BEHALF = "jobs.on_behalf"
ADMIN = "jobs.admin"
EXECUTE = "jobs.execute"
EVERYTHING = (READ, WRITE, ON_BEHALF, ADMIN, EXECUTE)

_LIFETIME = timedelta(days=1)
"""Longer than any run."""


def signed(secret: str, subject: str, scopes: Collection[str]) -> str:
    """Sign a token of this subject (HS256)."""
    claims = {"sub": subject, "scopes": sorted(scopes), "exp": datetime.now(UTC) + _LIFETIME}
    return jwt.encode(claims, secret, algorithm="HS256")
