"""All checks of executors, in their order: those that share a life, then those that end one."""

from __future__ import annotations

from collections.abc import Sequence

from verification.conformance.executors.check import Check
from verification.conformance.executors.checks import (
    frames,
    hello,
    leases,
    leaving,
    pieces,
    reports,
    sessions,
    stops,
)

CHECKS: Sequence[Check] = (
    *hello.CHECKS,
    *leases.CHECKS,
    *reports.CHECKS,
    *sessions.CHECKS,
    *stops.CHECKS,
    *pieces.CHECKS,
    *hello.RESTARTS,
    *leaving.CHECKS,
    *frames.CHECKS,
)
