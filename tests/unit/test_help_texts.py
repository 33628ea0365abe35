"""What `--help` says, in a terminal of 80 columns.

The first paragraph also stands in lists of commands. A paragraph that is one line is filled up; lines that
were broken by hand stay so, and are broken once more where they are too long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from shared.command.commands import build

_WIDTH_MAX = 78
"""A blank is on both sides."""


def every_command(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield name, command
    for each in getattr(command, "commands", {}).values():
        yield from every_command(f"{name} {each.name}", each)


COMMANDS = dict(every_command("baton", typer.main.get_command(build())))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_what_it_does_in_one_line(name: str) -> None:
    first = COMMANDS[name].help.strip().split("\n\n")[0]

    assert first.endswith(".")
    assert "\n" not in first


@pytest.mark.parametrize("name", COMMANDS)
def test_lines_that_were_broken_by_hand_fit(name: str) -> None:
    command = COMMANDS[name]
    for paragraph in re.split(r"\n\s*\n", f"{command.help}\n\n{command.epilog or ''}"):
        lines = paragraph.replace("\b\n", "").splitlines()
        assert [line for line in lines if len(lines) > 1 and len(line) > _WIDTH_MAX] == []
