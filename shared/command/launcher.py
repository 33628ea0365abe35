"""Becomes another program, once it is sure to end with the process that started it.

Run as `python -m shared.command.launcher PARENT_ID ORPHAN_SIGNAL IDENTITY PROGRAM [ARGUMENT ...]`. It is a
program of its own because code between fork and exec is unsafe in a process that has threads, and it
imports the standard library only because every start waits for it.

Postgres refuses to run as root. As root there are two ways around that, tried in this order:

* `unmapped`: a user namespace without a mapping. The user id reads as 65534 and the files stay root's
  own, so it works below directories that only root may enter. Containers often forbid it.
* `nobody`: user 65534 that keeps the one capability to pass closed directories, where root has it to give.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from enum import StrEnum

from shared.runtime.parent import die_with_parent

NOBODY = 65534

_CLONE_NEWUSER = 0x10000000
_PR_SET_KEEPCAPS = 8
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_CAP_DAC_OVERRIDE = 1
_CAPABILITY_VERSION_3 = 0x20080522
_ORPHAN_POLL_SECONDS = 0.5


class Identity(StrEnum):
    """As whom a program runs."""

    SAME = "same"
    UNMAPPED = "unmapped"
    NOBODY = "nobody"


def launched(
    argv: Sequence[str], *, orphan_signal: signal.Signals = signal.SIGTERM, identity: Identity = Identity.SAME
) -> list[str]:
    """Put the launcher before a command line, for a child of this very process."""
    launcher = [sys.executable, "-m", "shared.command.launcher"]
    return [*launcher, str(os.getpid()), str(int(orphan_signal)), identity, *argv]


def main(arguments: list[str]) -> None:
    parent_id, orphan_signal, identity, *program = arguments
    _assume(Identity(identity))
    with_signal = signal.Signals(int(orphan_signal))
    if sys.platform != "linux":
        _watch_over(program, int(parent_id), with_signal)
    # After the change of identity, which would clear it; it outlives the exec.
    die_with_parent(with_signal, parent_id=int(parent_id))
    try:
        os.execvp(program[0], program)
    except OSError as error:
        raise SystemExit(f"{program[0]} can't be started: {error.strerror}") from None


def usable_identity() -> Identity:
    """Find the identity in which a program that refuses root can run here."""
    if os.geteuid() != 0:
        return Identity.SAME
    tried = subprocess.run(
        launched(("true",), identity=Identity.UNMAPPED), stderr=subprocess.DEVNULL, check=False
    )
    return Identity.UNMAPPED if tried.returncode == 0 else Identity.NOBODY


def _assume(identity: Identity) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if identity is Identity.UNMAPPED and libc.unshare(_CLONE_NEWUSER) != 0:
        raise SystemExit(f"no user namespace: {os.strerror(ctypes.get_errno())}")
    if identity is Identity.NOBODY:
        if sys.platform == "linux":
            libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0)
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        if sys.platform == "linux":
            _keep_passing_directories(libc)


def _keep_passing_directories(libc: ctypes.CDLL) -> None:
    """Keep CAP_DAC_OVERRIDE over the exec. Where it can't be kept, directories must be open to others."""
    mask = 1 << _CAP_DAC_OVERRIDE
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    libc.capset(header, struct.pack("=6I", mask, mask, mask, 0, 0, 0))
    libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _CAP_DAC_OVERRIDE, 0, 0)


def _watch_over(program: list[str], parent_id: int, with_signal: signal.Signals) -> None:
    """Run the program below this process, where the kernel has no signal for orphans, and end as it ends."""
    child = subprocess.Popen(program, close_fds=False)
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(each, lambda received, _frame: child.send_signal(received))
    while child.poll() is None:
        if os.getppid() != parent_id:
            child.send_signal(with_signal)
            child.wait()
        time.sleep(_ORPHAN_POLL_SECONDS)
    raise SystemExit(child.returncode)


if __name__ == "__main__":
    main(sys.argv[1:])
