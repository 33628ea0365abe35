"""What a handler's author uses.

A handler is a function `(context: JobContext, input: InputModel) -> OutputModel`, async or plain; plain ones
run in threads. It may run again from the start at any time, for an attempt can be lost: what it does to the
world must bear that, or be fenced by `context.token`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from shared.domain.identity import JobId, LeaseToken
from shared.domain.jobs import JobError

Handler = Callable[..., Any]
"""Its annotations are checked against its definition at start-up: no type can say it, since each job type has
models of its own."""


class HandlerFailure(Exception):
    """The attempt failed, in words that its caller may read."""

    def __init__(
        self,
        code: str,
        message: str,
        retry_after: timedelta | None = None,
        permanent: bool = False,
        internal_message: str = "",
    ) -> None:
        """Say how.

        Args:
            code: `^[A-Z][A-Z0-9_]{2,63}$`; its class decides on retries, as in `shared.domain.retries`.
            message: A sentence for the caller without path, address, stack or provider's raw text.
            retry_after: What a provider asked for.
            permanent: Trying again can't help.
            internal_message: What happened inside, for operators.
        """
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.retry_after = retry_after
        self.permanent = permanent
        self.internal_message = internal_message


class Cancelled(Exception):
    """A plain handler stops because it was told to. Async handlers see `asyncio.CancelledError`."""


@dataclass(frozen=True, slots=True)
class Document:
    """The uploaded document that an input refers to.

    Attributes:
        media_type: As the uploader gave it; may be empty.
        file_name: As the uploader gave it; may be empty.
    """

    content: bytes
    media_type: str
    file_name: str


class Outlet(Protocol):
    """Where the words of a context go. Any thread may call `progress`; the rest is for the event loop's."""

    @property
    def lease_uncertain(self) -> bool: ...

    def progress(self, percent: int, message: str) -> None: ...

    async def piece(self, text: str, cancelled: asyncio.Event) -> None:
        """Send a piece, once there is room for it; raise Cancelled if that ends first."""
        ...


class JobContext:
    """One attempt, as its handler sees it."""

    def __init__(
        self,
        *,
        job_id: JobId,
        attempt: int,
        token: LeaseToken,
        time_left: timedelta,
        outlet: Outlet,
        document: Document | None = None,
        last_error: JobError | None = None,
    ) -> None:
        """Begin the attempt's time; to be called on the event loop that handlers run on.

        Args:
            attempt: From 1 on.
            token: Rises with each lease of the job; another system can refuse one that is older.
            time_left: From now on.
            last_error: Of the last attempt that ended without success.
        """
        self.job_id = job_id
        self.attempt = attempt
        self.token = token
        self.last_error = last_error
        self._document = document
        self._outlet = outlet
        self._end = time.monotonic() + time_left.total_seconds()
        self._loop = asyncio.get_running_loop()
        self._cancelled = asyncio.Event()

    def time_left(self) -> timedelta:
        """How long the handler may still run; negative once its time is up."""
        return timedelta(seconds=self._end - time.monotonic())

    def document(self) -> Document | None:
        """The document that the input refers to; None if there is none."""
        return self._document

    @property
    def lease_uncertain(self) -> bool:
        """Whether the service may have given the job to another executor: it has not answered for a while."""
        return self._outlet.lease_uncertain

    @property
    def cancelled(self) -> bool:
        """Whether the handler is to stop: a cancel, the end of its time, or of the executor."""
        return self._cancelled.is_set()

    def raise_if_cancelled(self) -> None:
        """For plain handlers, at every convenient point.

        Raises:
            Cancelled: The handler is to stop.
        """
        if self.cancelled:
            raise Cancelled

    async def until_cancelled(self) -> None:
        """Return once the handler is to stop. Its own task is cancelled then, other tasks are not."""
        await self._cancelled.wait()

    async def progress(self, percent: float, message: str = "") -> None:
        """Say how far the work is, and give way to other handlers; of many calls the latest one counts.

        Args:
            percent: 0 to 100.
            message: For people; cut at the service's limit.
        """
        self.report_progress(percent, message)
        await asyncio.sleep(0)

    def report_progress(self, percent: float, message: str = "") -> None:
        """The same for plain functions; never waits, may be called from any thread."""
        self._outlet.progress(int(min(max(percent, 0), 100)), message)

    async def emit(self, text: str) -> None:
        """Stream a piece of the output to whoever watches the job; waits while too many are not stored yet.

        Raises:
            HandlerFailure: The piece is too large, or holds what no text may.
        """
        if text:
            await self._outlet.piece(text, self._cancelled)

    def emit_piece(self, text: str) -> None:
        """The same for plain handlers, from their threads.

        Raises:
            Cancelled: The handler is to stop, and there is no room for the piece.
        """
        if not text:
            return
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            piece = self._outlet.piece(text, self._cancelled)
            asyncio.run_coroutine_threadsafe(piece, self._loop).result()
        else:
            raise RuntimeError("emit_piece would block the event loop: await emit instead")

    def cancel(self) -> None:
        """Tell the handler to stop; for the runtime, on the event loop. Idempotent."""
        self._cancelled.set()
