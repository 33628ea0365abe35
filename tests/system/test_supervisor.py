"""The supervisor of `baton dev`, with real processes below it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from shared.command.data_directory import LOOPBACK, free_port
from shared.command.process_spec import ProcessSpec, accepts_connections
from shared.command.supervised import restart_wait
from shared.command.supervisor import Supervisor
from shared.runtime.faults import StartupFault

LISTENER = """
import signal, socket, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    server.accept()[0].close()
"""
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
time.sleep(600)
"""
PARENT_OF_ONE = "import subprocess, sys, time; subprocess.Popen(['sleep', '601']); time.sleep(600)"
SUPERVISING = """
import asyncio, sys
from pathlib import Path
from shared.command.process_spec import ProcessSpec
from shared.command.supervisor import Supervisor

async def main():
    async with Supervisor(Path(sys.argv[1])) as supervisor:
        await supervisor.start(ProcessSpec("sleeper", ("sleep", "602")))
        print(supervisor.lives[0].process_id, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""
LIMIT_SECONDS = 15.0


def python(name: str, program: str, *arguments: str, **rest: Any) -> ProcessSpec:
    return ProcessSpec(name, (sys.executable, "-c", program, *arguments), **rest)


def listener(name: str = "listener") -> ProcessSpec:
    port = free_port()
    return python(
        name, LISTENER, str(port), address=f"{LOOPBACK}:{port}", ready=accepts_connections(LOOPBACK, port)
    )


def stack(directory: Path) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in json.loads((directory / "stack.json").read_text())["processes"]}


def is_running(process_id: int) -> bool:
    try:
        state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what another process does, of which no event tells."""
    async with asyncio.timeout(LIMIT_SECONDS):
        while not condition():  # noqa: ASYNC110 - the other process has no event of ours
            await asyncio.sleep(0.02)


async def test_a_started_process_is_ready_and_stands_in_the_stack_file(tmp_path: Path) -> None:
    spec = listener()
    async with Supervisor(tmp_path) as supervisor:
        await supervisor.start(spec)

        assert await spec.ready()
        [life] = supervisor.lives
        assert stack(tmp_path) == {
            "listener": {
                "name": "listener",
                "pid": life.process_id,
                "address": spec.address,
                "restarts": 0,
            }
        }


async def test_a_killed_process_comes_back_at_the_same_address(tmp_path: Path) -> None:
    spec = listener()
    async with Supervisor(tmp_path) as supervisor:
        await supervisor.start(spec)
        killed = stack(tmp_path)["listener"]["pid"]

        os.kill(killed, signal.SIGKILL)
        await until(lambda: stack(tmp_path)["listener"]["pid"] not in {killed, None})

        assert stack(tmp_path)["listener"]["restarts"] == 1
        await until(lambda: _accepts(spec))


def _accepts(spec: ProcessSpec) -> bool:
    assert spec.address is not None
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, int(spec.address.rpartition(":")[2]))) == 0


async def test_a_process_that_keeps_dying_keeps_being_started(tmp_path: Path) -> None:
    async with Supervisor(tmp_path) as supervisor:
        await supervisor.start(python("dying", "raise SystemExit(1)"))

        await until(lambda: stack(tmp_path)["dying"]["restarts"] >= 2)


def test_the_wait_before_a_start_doubles_up_to_five_seconds_until_a_life_was_long() -> None:
    second = timedelta(seconds=1)
    waits = [restart_wait(None, lived=second)]
    for _ in range(6):
        waits.append(restart_wait(waits[-1], lived=second))

    assert waits == [
        0.2 * second,
        0.4 * second,
        0.8 * second,
        1.6 * second,
        3.2 * second,
        5 * second,
        5 * second,
    ]
    assert restart_wait(5 * second, lived=10 * second) == 0.2 * second


async def test_a_process_that_says_starting_is_no_use_is_reported_with_its_words(tmp_path: Path) -> None:
    refusing = python(
        "refusing",
        "import sys; print('baton: BATON_X is required and not set', file=sys.stderr); sys.exit(2)",
        ready=_never,
    )
    async with Supervisor(tmp_path) as supervisor:
        with pytest.raises(StartupFault, match=r"^refusing: BATON_X is required and not set$"):
            await supervisor.start(refusing)


async def test_all_faults_of_the_last_start_are_told_and_none_of_an_earlier_one(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "refusing.log").write_text("baton: a fault of yesterday\n")
    refusing = python("refusing", r"print('baton: one\nbaton: two'); raise SystemExit(2)", ready=_never)
    async with Supervisor(tmp_path) as supervisor:
        with pytest.raises(StartupFault) as caught:
            await supervisor.start(refusing)
    assert caught.value.faults == ("refusing: one", "refusing: two")


async def test_a_process_that_does_not_get_ready_is_a_fault(tmp_path: Path) -> None:
    async with Supervisor(tmp_path) as supervisor:
        with pytest.raises(StartupFault, match="slow is not ready after 0 s"):
            await supervisor.start(ProcessSpec("slow", ("sleep", "603"), ready=_never, ready_seconds=0.3))


async def _never() -> bool:
    return False


async def test_stopping_goes_backwards_and_leaves_no_process_and_no_stack_file(tmp_path: Path) -> None:
    report = "import sys, signal, time; signal.signal(signal.SIGTERM, lambda *_: (open(sys.argv[1], 'a')"
    report += ".write(sys.argv[2]), sys.exit())); print('up', flush=True); time.sleep(600)"
    order = tmp_path / "order"
    async with Supervisor(tmp_path) as supervisor:
        for name in ("a", "b", "c"):
            said = tmp_path / "logs" / f"{name}.log"
            await supervisor.start(python(name, report, str(order), name, ready=_has_text(said)))
        process_ids = [life.process_id for life in supervisor.lives]

    assert order.read_text() == "cba"
    assert not any(is_running(process_id) for process_id in process_ids if process_id)
    assert not (tmp_path / "stack.json").exists()


def _has_text(path: Path) -> Any:
    return partial(asyncio.to_thread, lambda: path.exists() and path.stat().st_size > 0)


async def test_a_process_that_ignores_the_stop_is_killed_after_its_grace(tmp_path: Path) -> None:
    async with Supervisor(tmp_path) as supervisor:
        said = tmp_path / "logs" / "stubborn.log"
        await supervisor.start(python("stubborn", STUBBORN, grace_seconds=0.3, ready=_has_text(said)))
        process_id = supervisor.lives[0].process_id

    assert process_id is not None
    assert not is_running(process_id)


async def test_what_a_dead_process_had_started_dies_too(tmp_path: Path) -> None:
    async with Supervisor(tmp_path) as supervisor:
        await supervisor.start(python("parent", PARENT_OF_ONE))
        parent = supervisor.lives[0].process_id
        assert parent is not None
        await until(lambda: bool(_children(parent)))
        [child] = _children(parent)

        os.kill(parent, signal.SIGKILL)
        await until(lambda: not is_running(child))


def _children(process_id: int) -> list[int]:
    listed = Path(f"/proc/{process_id}/task/{process_id}/children")
    return [int(each) for each in listed.read_text().split()] if listed.exists() else []


async def test_nothing_outlives_a_killed_supervisor(tmp_path: Path) -> None:
    supervising = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SUPERVISING, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert supervising.stdout is not None
    sleeper = int(await supervising.stdout.readline())
    assert is_running(sleeper)

    supervising.kill()
    await supervising.wait()

    await until(lambda: not is_running(sleeper))
