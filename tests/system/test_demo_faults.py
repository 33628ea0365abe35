"""The demo when something is not as it should be: it says so, and leaves nothing behind all the same."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from verification.stage import stack

LIMIT_SECONDS = 100


def started(mark: dict[str, str], temporary: Path, *files: Path) -> subprocess.Popen[str]:
    temporary.mkdir()
    return subprocess.Popen(
        [sys.executable, "-m", "shared.command.main", "demo", *map(str, files)],
        env={**stack.clean_environment(), **mark, "TMPDIR": str(temporary), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_broken_document_is_told_in_a_sentence_and_the_demo_goes_on(tmp_path: Path) -> None:
    broken, sound = tmp_path / "broken.pdf", tmp_path / "sound.md"
    broken.write_bytes(b"%PDF-1.4 and nothing more")
    sound.write_text("# A Sound Heading\n\nAnd its text.\n")
    mark, marks = stack.marking()
    demo = started(dict(marks), tmp_path / "temporary", broken, sound)
    shown, said = demo.communicate(timeout=LIMIT_SECONDS)

    assert demo.returncode == 1, shown + said
    assert "broken.pdf: not imported: " in shown
    assert "A Sound Heading" in shown
    assert "jobs       4 (2 succeeded, " in shown
    assert said == "baton: 1 of 2 documents could not be imported\n"
    assert stack.marked(mark) == []


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM], ids=lambda each: each.name)
def test_a_demo_that_is_interrupted_stops_everything(tmp_path: Path, sent: signal.Signals) -> None:
    document = tmp_path / "a.md"
    document.write_text("# A\n\nText.\n")
    mark, marks = stack.marking()
    demo = started(dict(marks), tmp_path / "temporary", document)
    assert demo.stdout is not None
    next(line for line in demo.stdout if line.startswith("Ready"))
    demo.send_signal(sent)
    _, said = demo.communicate(timeout=LIMIT_SECONDS)

    assert (demo.returncode, said) == (130, "baton: interrupted; everything is stopped\n")
    assert stack.marked(mark) == []
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_file_that_is_not_there_starts_nothing(tmp_path: Path) -> None:
    demo = started({}, tmp_path / "temporary", tmp_path / "nothing.pdf")
    shown, said = demo.communicate(timeout=LIMIT_SECONDS)

    assert (demo.returncode, shown) == (2, "")
    assert said.count("\n") == 1
    assert "nothing.pdf" in said
