"""The README's grpcurl lines, and a grpcurl to run them with: the real one, or `buf curl` in its clothes."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
README_ADDRESS = "127.0.0.1:7410"

_BLOCK = re.compile(r"<!-- grpcurl: (?P<name>\w+) -->\n```sh\n(?P<lines>.*?)```\n", re.DOTALL)
_LIMIT_SECONDS = 60

# What the lines use of grpcurl's command line, said as buf says it. buf has no `describe`.
_OVER_BUF = """#!/bin/sh
if [ "$1" = -plaintext ]; then shift; fi
if [ "$1" = -d ]; then data=$2; shift 2; fi
url=http://$1
if [ "$2" = list ]; then exec "{buf}" curl --protocol grpc --http2-prior-knowledge --list-services "$url"; fi
exec "{buf}" curl --protocol grpc --http2-prior-knowledge --data "$data" "$url/$2"
"""


@dataclass(frozen=True, slots=True)
class Grpcurl:
    """A program that answers to the name `grpcurl`.

    Attributes:
        program: What it really is.
    """

    name: str
    program: Path
    describes: bool

    def on_path(self, folder: Path) -> str:
        """Put it into a folder of its own, and return the PATH that finds it first."""
        folder.mkdir()
        command = folder / "grpcurl"
        if self.describes:
            command.symlink_to(self.program)
        else:
            command.write_text(_OVER_BUF.format(buf=self.program))
            command.chmod(0o755)
        return f"{folder}:/usr/local/bin:/usr/bin:/bin"


def available() -> list[Grpcurl]:
    """The real one where its binary can be had, and always the stand-in."""
    real = _real()
    stand_in = Grpcurl("buf curl", REPOSITORY / ".venv-gen" / "bin" / "buf", describes=False)
    return [*([Grpcurl("grpcurl", real, describes=True)] if real else []), stand_in]


def _real() -> Path | None:
    beside = shutil.which("grpcurl", path=str(Path(sys.executable).parent))
    return Path(beside) if beside else None


def blocks() -> Mapping[str, str]:
    """The README's blocks of lines, by their names and in their order."""
    text = (REPOSITORY / "README.md").read_text()
    return {block["name"]: block["lines"] for block in _BLOCK.finditer(text)}


def run(lines: Mapping[str, str], *, address: str, path: str, directory: Path) -> Mapping[str, str]:
    """Run blocks one after the other in one shell, as a person would; return what each printed.

    Raises:
        AssertionError: A line failed.
    """
    script = "\n".join(f"echo '=== {name}'\n{text}" for name, text in lines.items())
    done = subprocess.run(
        ["bash", "-e", "-u", "-o", "pipefail", "-c", script.replace(README_ADDRESS, address)],
        cwd=directory,
        env={"PATH": path},
        capture_output=True,
        text=True,
        timeout=_LIMIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    printed = re.split(r"^=== (\w+)\n", done.stdout, flags=re.MULTILINE)[1:]
    return dict(zip(printed[::2], printed[1::2], strict=True))
