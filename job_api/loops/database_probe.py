"""Asks whether the database answers, so that load balancers send calls where they can be served."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from uuid import UUID

import structlog

from shared.domain.errors import PlatformUnavailable
from shared.domain.identity import JobId
from shared.storage.transactions import Transactions

log = structlog.get_logger(__name__)

_NO_JOB = JobId(UUID(int=0))
"""Any statement will do; this one reads one index page."""


class DatabaseProbe:
    """Reports each answer and each silence; use a pool of its own, which calls can't use up."""

    def __init__(
        self,
        transactions: Transactions,
        report: Callable[[bool], Awaitable[None]],
        *,
        answer_within: timedelta,
    ) -> None:
        self._transactions = transactions
        self._report = report
        self._answer_seconds = answer_within.total_seconds()
        self._answers = True
        self._question: asyncio.Task[bool] | None = None

    async def step(self) -> bool:
        """Ask once; a silent database is a finding, not an error."""
        answers = await self._ask()
        if answers != self._answers:
            log.warning("database.away") if not answers else log.info("database.back")
        self._answers = answers
        await self._report(answers)
        return False

    async def _ask(self) -> bool:
        """Wait for an answer, no longer than it may take; a question that hangs is not asked twice."""
        question = self._question = self._question or asyncio.create_task(self._question_asked())
        try:
            done, _ = await asyncio.wait({question}, timeout=self._answer_seconds)
        except asyncio.CancelledError:
            question.cancel()
            raise
        if not done:
            return False
        self._question = None
        return question.result()

    async def _question_asked(self) -> bool:
        try:
            async with self._transactions.begin() as transaction:
                await transaction.jobs.get(_NO_JOB)
        except PlatformUnavailable:
            return False
        return True
