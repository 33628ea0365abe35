"""What a handler process does between the keeper's first frame and the end of the pipe."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from datetime import timedelta
from typing import cast

from job_worker.executor import registry
from job_worker.executor.frame_pipe import FramePipe, GatheredFrames
from job_worker.executor.handler_runner import HandlerRunner
from job_worker.executor.loop_watch import Culprit, LoopWatch
from job_worker.executor.registry import RunnableJob
from shared.catalog import catalog
from shared.domain.identity import JobType
from shared.gen.baton.internal.v1.handler_pipe_pb2 import HandlerFrame, KeeperFrame, Setup
from shared.runtime import logs
from shared.runtime.faults import StartupFault


async def serve(end: socket.socket) -> None:
    """Run attempts until the keeper closes the pipe, or at once say why there can be none."""
    pipe = await FramePipe.over(end)
    first = await pipe.read()
    if first is None:
        return
    setup = KeeperFrame.FromString(first).setup
    _configure_logs(setup)
    frames = GatheredFrames(pipe, HandlerFrame)
    try:
        jobs = _jobs(setup)
    except StartupFault as fault:
        frames.frame().ready.faults.extend(fault.faults)
        frames.flush()
        await pipe.read()
        return
    frames.frame().ready.SetInParent()
    runner = HandlerRunner(frames, jobs, at_once=setup.at_once)
    _watch_loop(runner, frames)
    while (content := await pipe.read()) is not None:
        runner.receive(KeeperFrame.FromString(content))
    os._exit(0)  # at once: handlers must not go on without the keeper of their leases


def _jobs(setup: Setup) -> Mapping[JobType, RunnableJob]:
    try:
        known = catalog.load(setup.job_modules)
    except catalog.CatalogFault as fault:
        raise StartupFault(fault.faults) from fault
    return registry.load(known, setup.job_types, setup.job_modules)


def _configure_logs(setup: Setup) -> None:
    logs.configure(
        level=cast("logs.LogLevel", setup.log_level), log_format=cast("logs.LogFormat", setup.log_format)
    )


def _watch_loop(runner: HandlerRunner, frames: GatheredFrames[HandlerFrame]) -> None:
    def told(lag_seconds: float, culprit: Culprit) -> None:
        loop_lag = frames.frame().loop_lag
        loop_lag.lag.FromTimedelta(timedelta(seconds=lag_seconds))
        loop_lag.job_type, loop_lag.job_id = culprit

    LoopWatch(whose=runner.whose, told=told)
