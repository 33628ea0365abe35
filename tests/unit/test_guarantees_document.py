"""docs/guarantees.md names tests, files, invariants, cases and settings that there are."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from job_api.settings import ApiSettings
from job_worker.executor.settings import ExecutorSettings
from job_worker.settings import WorkerSettings
from shared.runtime.settings import variables
from verification.cases.catalog import CASES
from verification.invariants.catalog import INVARIANTS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "guarantees.md").read_text()
PARTS = ("Mechanism", "Tests", "Invariants", "Not promised")

TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))
FILES = sorted(set(re.findall(r"`([\w/]+/\w+\.py)", PAGE)))


def sections() -> Mapping[str, str]:
    """Return the text under each heading."""
    _, *rest = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    return {heading: text for heading, _, text in (each.partition("\n") for each in rest)}


def numbered() -> Mapping[int, str]:
    """Return the guarantees that have a number."""
    return {
        int(heading.partition(".")[0]): text for heading, text in sections().items() if heading[0].isdigit()
    }


def part(section: str, name: str) -> str:
    """Return what stands behind a bold word, up to the next one."""
    _, _, rest = section.partition(f"- **{name}**: ")
    return rest.partition("\n- **")[0]


@pytest.mark.parametrize(("path", "name"), TESTS)
def test_every_test_that_it_names_is_there(path: str, name: str) -> None:
    defined = {
        each.name
        for each in ast.parse((ROOT / path).read_text()).body
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    }

    assert name in defined


def test_every_file_that_it_names_is_there() -> None:
    assert FILES
    assert [each for each in FILES if not (ROOT / each).is_file()] == []


def test_it_names_every_invariant_under_its_number_and_no_other() -> None:
    judged: defaultdict[int, set[str]] = defaultdict(set)
    for each in INVARIANTS:
        judged[each.number].add(each.name)

    told = {
        number: set(re.findall(r"`([^`]+)`", part(section, "Invariants")))
        for number, section in numbered().items()
    }

    assert told == judged


def test_the_guarantees_are_numbered_in_order() -> None:
    assert list(numbered()) == list(range(1, max(each.number for each in INVARIANTS) + 1))


def test_every_guarantee_tells_its_mechanism_its_tests_and_what_is_not_promised() -> None:
    missing = [
        (number, name) for number, section in numbered().items() for name in PARTS if not part(section, name)
    ]

    assert missing == []


def test_it_names_every_case_and_no_other() -> None:
    told = {
        int(number)
        for section in sections().values()
        for named in re.findall(r";\s+cases?\s+([\d\s,and]+)\.\n", section)
        for number in re.findall(r"\d+", named)
    }

    assert told == {each.number for each in CASES}


def test_every_setting_that_it_names_is_there() -> None:
    known = {
        name for settings in (ApiSettings, WorkerSettings, ExecutorSettings) for name in variables(settings)
    }

    assert set(re.findall(r"`(BATON_\w+)`", PAGE)) <= known


def test_its_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^):#]+)", PAGE)

    assert targets
    assert [each for each in targets if not (ROOT / "docs" / each).exists()] == []
