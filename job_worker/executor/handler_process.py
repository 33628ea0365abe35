"""A handler process: `python -m job_worker.executor.handler_process FD KEEPER`, started by the keeper only.

It talks to the keeper over the inherited socket FD, and ends when the keeper does, however that happens: the
kernel kills it, and where the kernel does not, the end of the pipe ends it.
"""

from __future__ import annotations

import os
import signal
import socket
import sys

from shared.runtime.parent import die_with_parent


def main() -> None:
    """Run attempts until the keeper closes the pipe; never returns."""
    end, keeper = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    end.set_inheritable(False)
    die_with_parent(signal.SIGKILL, parent_id=keeper)
    # Who stops the whole group means the keeper, which decides about its handlers. Not SIG_IGN: programs that
    # a handler starts would inherit it.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: None)
    from job_worker.executor.handler_service import serve  # noqa: PLC0415 - late, so that an orphan is never born
    from shared.runtime.processes import run  # noqa: PLC0415

    async def serving() -> None:
        await serve(end)

    run(serving)
    sys.stderr.flush()
    os._exit(0)  # threads of plain handlers may still run, and nobody waits for them


if __name__ == "__main__":
    main()
