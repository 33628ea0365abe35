"""What a start says of projectors that can't be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from job_worker.projectors import registry
from shared.catalog import catalog
from shared.runtime.faults import StartupFault


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("def plain(*_): ...\nPROJECTORS = {'mine': plain}", "'mine' .* must be a coroutine function"),
        ("PROJECTORS = {'mine': nothing}", r"/projectors\.py:1: NameError: name 'nothing' is not defined"),
        ("PROJECTORS = 7", "has PROJECTORS that are no mapping"),
    ],
    ids=["plain function", "broken module", "no mapping"],
)
def test_what_is_no_projector_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, sentence: str
) -> None:
    package = f"package_{abs(hash(text))}"
    (tmp_path / package).mkdir()
    (tmp_path / package / "projectors.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(StartupFault, match=sentence):
        registry.load(catalog.load(), [package])
