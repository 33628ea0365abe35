"""How commands end: one line on standard error for each error, and an exit code by its kind."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from shared.runtime.processes import EXIT_INTERRUPTED, EXIT_UNREAD

EXIT_JOB_FAILED = 1
EXIT_INVALID = 2
EXIT_NOT_FOUND = 3
EXIT_CONFLICT = 4
EXIT_UNAVAILABLE = 5
EXIT_DENIED = 6
EXIT_LIMIT = 7
EXIT_OTHER = 8


@contextmanager
def ending() -> Iterator[None]:
    """Turn what the service, the machine or the person says into a line and an exit code."""
    from job_api.client import BatonError, CallFailed

    try:
        yield
    except BatonError as error:
        say(f"{error.message} ({error.reason})")
        raise typer.Exit(_code_of(error)) from None
    except CallFailed as failure:
        say(f"{_headline(failure.status)}: {failure.message}" if failure.message else failure.status)
        unavailable = failure.status in {"UNAVAILABLE", "DEADLINE_EXCEEDED"}
        raise typer.Exit(EXIT_UNAVAILABLE if unavailable else EXIT_OTHER) from None
    except BrokenPipeError:
        raise typer.Exit(EXIT_UNREAD) from None
    except OSError as error:
        say(str(error))
        raise typer.Exit(EXIT_INVALID) from None
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None


def say(line: str) -> None:
    """Write one line on standard error, whatever the text holds."""
    print(f"baton: {' '.join(line.split())}", file=sys.stderr)


def invalid(line: str) -> typer.Exit:
    """Say what is wrong with what the person gave, and return the exit to raise."""
    say(line)
    return typer.Exit(EXIT_INVALID)


def _headline(status: str) -> str:
    said = {
        "UNAVAILABLE": "the service can't be reached",
        "UNIMPLEMENTED": "what answers there is no JobControl, or one of another version",
    }
    return said.get(status, status)


def _code_of(error: Exception) -> int:
    from job_api.client import errors

    kinds = {
        errors.InvalidInput: EXIT_INVALID,
        errors.UnknownJobType: EXIT_INVALID,
        errors.InvalidPageToken: EXIT_INVALID,
        errors.PayloadTooLarge: EXIT_INVALID,
        errors.JobNotFound: EXIT_NOT_FOUND,
        errors.BatchNotFound: EXIT_NOT_FOUND,
        errors.JobNotCancellable: EXIT_CONFLICT,
        errors.JobAlreadyCancelled: EXIT_CONFLICT,
        errors.JobNotRetryable: EXIT_CONFLICT,
        errors.BatchStateConflict: EXIT_CONFLICT,
        errors.IdempotencyKeyReused: EXIT_CONFLICT,
        errors.PlatformUnavailable: EXIT_UNAVAILABLE,
        errors.Unauthenticated: EXIT_DENIED,
        errors.PermissionDenied: EXIT_DENIED,
        errors.TooManyJobs: EXIT_LIMIT,
        errors.QuotaExceeded: EXIT_LIMIT,
    }
    return next((code for kind, code in kinds.items() if isinstance(error, kind)), EXIT_OTHER)
