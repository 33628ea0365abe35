"""`baton demo`, and what it shows: real documents go the whole way, and can be read back."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from job_api.client.client import Client
from shared.domain.jobs import JobState
from tests.support import pdf_files
from verification.stage import stack

LIMIT_SECONDS = 110

HEADINGS = {
    "tide.pdf": ["Tides and Boats", "High Water", "Low Water"],
    "loom.html": ["Weaving on a Loom", "Warp and Weft", "Finishing the Cloth"],
    "yeast.md": ["Bread and Yeast", "Feeding a Starter", "Baking the Loaf"],
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A PDF, an HTML page and a Markdown file, each with a title and two sections."""
    folder = tmp_path_factory.mktemp("documents")
    paper = pdf_files.paper()
    for size, heading in zip((22, 16, 16), HEADINGS["tide.pdf"], strict=True):
        paper.heading(heading, size)
        paper.paragraph()
    (folder / "tide.pdf").write_bytes(pdf_files.bytes_of(paper))
    title, first, second = HEADINGS["loom.html"]
    (folder / "loom.html").write_text(
        f"<!doctype html><title>Looms</title><h1>{title}</h1><p>Threads cross.</p>"
        f"<h2>{first}</h2><p>One lies still.</p><h2>{second}</h2><p>Cut and hem.</p>"
    )
    title, first, second = HEADINGS["yeast.md"]
    (folder / "yeast.md").write_text(
        f"# {title}\n\nIt rises.\n\n## {first}\n\nFlour and water.\n\n## {second}\n\nHot and long.\n"
    )
    return [folder / name for name in HEADINGS]


def test_the_demo_runs_from_end_to_end_and_leaves_nothing_behind(files: list[Path], tmp_path: Path) -> None:
    mark, marks = stack.marking()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "shared.command.main", "demo", *map(str, files)],
        env={
            **stack.clean_environment(),
            **marks,
            "TMPDIR": str(temporary),
            "NO_COLOR": "1",
            "COLUMNS": "120",
        },
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    for name, headings in HEADINGS.items():
        assert _stand_in_order([name, *headings], done.stdout), done.stdout
    assert stack.marked(mark) == []
    assert _working_below(temporary) == []
    assert list(temporary.iterdir()) == []


def _stand_in_order(words: list[str], text: str) -> bool:
    place = 0
    for word in words:
        place = text.find(word, place)
        if place < 0:
            return False
    return True


def _working_below(folder: Path) -> list[str]:
    """Processes that work in a folder, removed or not: a server works in its data directory."""
    return [
        str(process)
        for process in Path("/proc").glob("[0-9]*")
        if _directory(process).startswith(str(folder))
    ]


def _directory(process: Path) -> str:
    try:
        return str((process / "cwd").readlink())
    except OSError:  # it has ended
        return ""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    running = stack.running(tmp_path_factory.mktemp("import") / "stack")
    with running as engine, Client(engine.control) as opened:
        yield opened


def test_items_read_back_hold_the_headings_of_each_document_in_order(
    client: Client, files: list[Path]
) -> None:
    uploads = [client.upload(file) for file in files]
    jobs = [client.create_job("document_import", {"upload_id": str(each.upload_id)}) for each in uploads]

    for file, job in zip(files, jobs, strict=True):
        for _ in client.watch(job.job_id):
            pass
        ended = client.get(job.job_id)
        assert ended.state is JobState.SUCCEEDED, ended.error
        items = [each.content for each in client.artifacts(job.job_id, content=True)]
        assert [item["ordinal"] for item in items] == list(range(1, len(items) + 1))
        assert _headings(items) == HEADINGS[file.name]


def _headings(items: list[dict[str, list[str]]]) -> list[str]:
    """All headings under which items stand, each once, in the order in which they come up."""
    return list(dict.fromkeys(heading for item in items for heading in item["heading_path"]))
