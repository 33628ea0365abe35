"""What lies in shared/gen is what the protos give: nobody edits it, and nobody forgets to generate."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.architecture.source import GENERATED, REPOSITORY


def test_generated_code_is_fresh(tmp_path: Path) -> None:
    python = REPOSITORY / ".venv-gen" / "bin" / "python"
    subprocess.run([python, REPOSITORY / "protos" / "generate.py", "--base", tmp_path], check=True)

    assert contents(GENERATED)
    assert contents(GENERATED) == contents(tmp_path / "shared" / "gen"), "run `make proto`"


def contents(folder: Path) -> dict[str, str]:
    """Return the text of each file below `folder`, by its path from there."""
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*.py*"))
        if path.suffix in {".py", ".pyi"}
    }
