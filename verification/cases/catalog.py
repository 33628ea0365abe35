"""All cases, in the order of their numbers."""

from __future__ import annotations

from verification.cases import busy_handler, delivery
from verification.cases.case import Case

CASES: tuple[Case, ...] = (busy_handler.CASE, delivery.CASE)
