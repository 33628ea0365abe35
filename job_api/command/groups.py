"""The commands that this service brings to `baton`. What they need is imported once one of them runs."""

from __future__ import annotations

import typer

from job_api.command.auditing import list_audit_records
from job_api.command.batch import batch
from job_api.command.cancelling import cancel
from job_api.command.demo import demo
from job_api.command.explaining import explain
from job_api.command.operating import list_executors
from job_api.command.options import EXIT_CODES
from job_api.command.outbox import outbox
from job_api.command.pausing import queues
from job_api.command.reading import get_job, list_jobs
from job_api.command.retrying import retry
from job_api.command.submitting import submit
from job_api.command.top import top
from job_api.command.watching import watch


def register(app: typer.Typer) -> None:
    """Add this service's commands."""
    app.command("api")(api)
    app.command("submit", epilog=EXIT_CODES)(submit)
    app.command("get", epilog=EXIT_CODES)(get_job)
    app.command("list", epilog=EXIT_CODES)(list_jobs)
    app.command("watch", epilog=EXIT_CODES)(watch)
    app.command("cancel", epilog=EXIT_CODES)(cancel)
    app.command("retry", epilog=EXIT_CODES)(retry)
    app.command("explain", epilog=EXIT_CODES)(explain)
    app.command("audit", epilog=EXIT_CODES)(list_audit_records)
    app.command("executors", epilog=EXIT_CODES)(list_executors)
    app.command("top", epilog=EXIT_CODES)(top)
    app.add_typer(batch, name="batch")
    app.add_typer(outbox, name="outbox")
    app.add_typer(queues, name="queues")
    app.command("demo")(demo)


def api() -> None:
    """Run JobControl, with the loops that dispatch, sweep and reap; settings come from BATON_*."""
    from job_api.app import run as serve
    from job_api.settings import ApiSettings
    from shared.runtime.processes import begin, run

    raise typer.Exit(run(lambda: serve(begin(ApiSettings))))
