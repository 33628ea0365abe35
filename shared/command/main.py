"""`baton`: begins to run, and loads the rest only where Ctrl-C is answered already."""

from __future__ import annotations

import sys

_EXIT_INTERRUPTED = 130
"""As `shared.runtime.processes` has it, which takes its time to load."""


def main() -> None:
    """Run `baton` and exit."""
    try:
        from shared.command.commands import run_command

        run_command()
    except KeyboardInterrupt:
        sys.exit(_EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
