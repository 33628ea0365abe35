"""What is no command line is told in one line, with the help to look at."""

from __future__ import annotations

import subprocess
import sys

import pytest


def baton(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "shared.command.main", *arguments], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("arguments", "told", "where"),
    [
        (["lst"], "no such command 'lst'. Did you mean 'list'?", ""),
        (["get"], "missing argument 'ID'", " get"),
        (["get", "--no-such"], "no such option: --no-such", " get"),
        (["dev", "--executors", "99"], "invalid value for '--executors'", " dev"),
        (["demo", f"/nowhere/{'x' * 80}/a.pdf"], f"file '/nowhere/{'x' * 80}/a.pdf' does not exist", " demo"),
    ],
)
def test_a_misused_command_says_so_in_one_line(arguments: list[str], told: str, where: str) -> None:
    process = baton(*arguments)

    assert (process.returncode, process.stdout) == (2, "")
    (line,) = process.stderr.splitlines()
    assert line.startswith("baton: ")
    assert told in line
    assert line.endswith(f"{where} --help`")


@pytest.mark.parametrize("group", [(), ("batch",), ("outbox",)])
def test_a_group_alone_shows_its_help_and_nothing_more(group: tuple[str, ...]) -> None:
    process = baton(*group)

    assert (process.returncode, process.stderr) == (2, "")
    assert "Commands" in process.stdout
