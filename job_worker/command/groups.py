"""What `job_worker` adds to the command."""

from __future__ import annotations

import os
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the commands that start this service's processes."""
    app.command("worker")(worker_command)
    app.command("executor")(executor_command)


def worker_command() -> None:
    """Serve ExecutionService: hand work to executors, and make their results durable."""
    from job_worker.app import run
    from job_worker.settings import WorkerSettings
    from shared.runtime import processes

    raise typer.Exit(processes.run(lambda: run(processes.begin(WorkerSettings))))


def executor_command(
    queue: Annotated[list[str] | None, typer.Option(help="Serve only this queue; may be repeated.")] = None,
    group: Annotated[list[str] | None, typer.Option(help="Serve only this group of queues.")] = None,
    job_type: Annotated[list[str] | None, typer.Option(help="Serve only this job type.")] = None,
    name: Annotated[str | None, typer.Option(help="A name for people; the machine's by default.")] = None,
) -> None:
    """Run jobs: take leases from ExecutionService, and hand results back."""
    # Handler processes are new programs, not forks; gRPC's preparations for a fork would only complain.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    from job_worker.executor.app import run
    from job_worker.executor.settings import ExecutorSettings
    from shared.runtime import processes

    told = {"serve_queues": queue, "serve_groups": group, "serve_job_types": job_type, "executor_name": name}

    async def until_stopped() -> int:
        settings = processes.begin(ExecutorSettings)
        return await run(settings.model_copy(update={key: value for key, value in told.items() if value}))

    raise typer.Exit(processes.run(until_stopped))
