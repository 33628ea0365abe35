"""What shells are offered, asked as they ask."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from shared.catalog import catalog
from shared.domain.scopes import ALL_SCOPES

BATON = Path(sys.executable).with_name("baton")


def asked(environment: dict[str, str]) -> str:
    done = subprocess.run(
        [BATON], env={**os.environ, **environment}, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    return done.stdout


def offered_by_bash(line: str) -> Sequence[str]:
    words = line.split(" ")
    return asked(
        {"_BATON_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    ).split()


def offered_by_zsh(line: str) -> Sequence[str]:
    text = asked({"_BATON_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": line})
    return re.findall(r'^(?:_arguments [^"]*)?"([^":]+)"', text, re.MULTILINE)


shells = pytest.mark.parametrize("offered", [offered_by_bash, offered_by_zsh], ids=["bash", "zsh"])


@shells
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("baton exec", ["executor", "executors"]),
        ("baton outbox ", ["list", "resend"]),
        ("baton list --sta", ["--state"]),
        ("baton list --state ", ["QUEUED", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED"]),
        ("baton list --state ru", ["running"]),
        ("baton cancel --state ", ["QUEUED", "RUNNING"]),
        ("baton batch advance ID ", ["exported", "stored"]),
        ("baton watch --state F", ["FAILED"]),
        ("baton batch list --state stor", ["stored"]),
        ("baton outbox list --state d", ["delivered", "dead"]),
        ("baton submit syn", ["synthetic"]),
        ("baton retry --type document", ["document_import"]),
        ("baton cancel --queue ai-", ["ai-interactive", "ai-background"]),
        ("baton queues pause dr", ["drill"]),
        ("baton token --scope ", sorted(ALL_SCOPES)),
    ],
)
def test_words_are_offered_by_what_is_known_offline(offered: object, line: str, words: Sequence[str]) -> None:
    assert callable(offered)
    assert sorted(offered(line)) == sorted(words)


def test_job_types_of_a_deployment_are_offered_and_those_that_cannot_be_loaded_are_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shipped = sorted(catalog.load().definitions)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1] / "support"))
    monkeypatch.setenv("BATON_JOB_MODULES", "drill_jobs")
    own = sorted(offered_by_bash("baton submit "))
    assert own == sorted(catalog.load(["tests.support.drill_jobs"]).definitions)
    assert set(own) > set(shipped)
    monkeypatch.setenv("BATON_JOB_MODULES", "no_such_package")
    assert sorted(offered_by_bash("baton submit ")) == shipped


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_completion_can_be_shown_for_each_shell(shell: str, tmp_path: Path) -> None:
    """The shell is found by the name of the process that runs the command."""
    script = asked({"_BATON_COMPLETE": f"source_{shell}"})

    assert f"_BATON_COMPLETE=complete_{shell}" in script
    assert "complete -o default" in script if shell == "bash" else "compdef" in script


def test_bash_completes_a_line_by_what_is_installed_for_it(tmp_path: Path) -> None:
    """Install for bash into a home of its own, and let bash complete a line."""
    environment = {**os.environ, "HOME": str(tmp_path), "PATH": f"{BATON.parent}:{os.environ['PATH']}"}

    def bash(script: str) -> str:
        done = subprocess.run(
            ["bash", "-c", script], env=environment, capture_output=True, text=True, check=True, timeout=60
        )
        return done.stdout

    assert "completion installed" in bash("baton --install-completion; true")
    script = """
        . ~/.bashrc
        COMP_WORDS=(baton list --state RU) COMP_CWORD=3
        _baton_completion baton
        echo "${COMPREPLY[@]}"
    """
    assert bash(script).split() == ["RUNNING"]
    assert "_baton_completion" in bash("baton --show-completion; true")
