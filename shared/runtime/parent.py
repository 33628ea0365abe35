"""Ends a process when the one that started it is gone.

It stands alone, on the standard library only: the launcher of child processes imports it, and has no time
to wait for the rest.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

_PR_SET_PDEATHSIG = 1
_PARENT_POLL_SECONDS = 0.5
"""Where the kernel does not tell of a parent's death, how often to look; an orphan lives this much longer."""


def die_with_parent(with_signal: signal.Signals, *, parent_id: int) -> None:
    """Have this process signalled when its parent dies, however it dies.

    On Linux the kernel does it; the parent is then the *thread* that started this process, so children
    are started from threads that last. Elsewhere a thread looks every half second.

    Args:
        parent_id: The parent as the parent itself told; if it is no longer this process's parent, it died
            before this call, and the signal is raised at once.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(with_signal), 0, 0, 0)
    else:
        threading.Thread(
            target=_watch_parent, args=(parent_id, with_signal), name="parent-watch", daemon=True
        ).start()
    if os.getppid() != parent_id:
        signal.raise_signal(with_signal)


def _watch_parent(parent_id: int, with_signal: signal.Signals) -> None:
    while os.getppid() == parent_id:
        time.sleep(_PARENT_POLL_SECONDS)
    os.kill(os.getpid(), with_signal)
