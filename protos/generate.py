"""Generates shared/gen from the protos beside this file: `make proto`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent


def main() -> int:
    """Run buf, with the plugin on this very Python; return buf's exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", type=Path, default=REPOSITORY, help="the folder to put shared/gen in")
    base: Path = parser.parse_args().base
    scripts = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
    command: list[str | Path] = [scripts / "buf", "generate", "--output", base]
    return subprocess.run(command, cwd=REPOSITORY, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
