"""What a caller may be allowed to do; the names stand in tokens, and are part of the contract."""

from __future__ import annotations

JOBS_READ = "jobs.read"
JOBS_WRITE = "jobs.write"
JOBS_ON_BEHALF = "jobs.on_behalf"
"""For backends that act for their users."""
JOBS_ADMIN = "jobs.admin"
"""Every owner's jobs, and what happened inside."""
JOBS_EXECUTE = "jobs.execute"
"""For executors."""

ALL_SCOPES = frozenset({JOBS_READ, JOBS_WRITE, JOBS_ON_BEHALF, JOBS_ADMIN, JOBS_EXECUTE})
