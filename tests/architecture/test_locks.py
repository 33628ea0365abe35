"""The locks say what is installed, to the byte, and nothing about where it comes from."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.source import REPOSITORY

LOCKS = sorted((REPOSITORY / "requirements").glob("*.lock"))
WHERE_FROM = re.compile(r"://|--(extra-)?index-url|--find-links|--trusted-host")
PIN = re.compile(r"^(?P<name>[a-z0-9-]+)==(?P<version>[^\s;]+)(?P<rest>(?:.*\\\n)+.*)$", re.MULTILINE)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_names_no_host(lock: Path) -> None:
    assert WHERE_FROM.findall(lock.read_text()) == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_line_of_a_lock_belongs_to_a_pin_with_hashes(lock: Path) -> None:
    rest = PIN.sub("", lock.read_text())

    assert [line for line in rest.splitlines() if line and not line.startswith("#")] == []
    assert all("--hash=sha256:" in pin["rest"] for pin in PIN.finditer(lock.read_text()))


def test_the_locks_hold_what_the_product_asks_for() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["embedded"]]
    locked = pins("product.lock")

    for requirement in map(Requirement, wanted):
        assert requirement.specifier.contains(locked[canonicalize_name(requirement.name)]), requirement


def test_packages_that_two_locks_share_have_one_version() -> None:
    product, dev = pins("product.lock"), pins("dev.lock")

    assert {name: dev[name] for name in product.keys() & dev.keys() if product[name] != dev[name]} == {}


def test_code_is_generated_by_the_oldest_grpc_that_the_product_supports() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    grpcio = next(r for r in map(Requirement, project["dependencies"]) if r.name == "grpcio")

    assert grpcio.specifier.contains(pins("gen.lock")["grpcio-tools"])
    assert f">={'.'.join(pins('gen.lock')['grpcio-tools'].split('.')[:2])}" in str(grpcio.specifier)


def pins(lock: str) -> dict[str, str]:
    """Return the version that `lock` pins for each package, by the package's canonical name."""
    text = (REPOSITORY / "requirements" / lock).read_text()
    return {canonicalize_name(pin["name"]): pin["version"] for pin in PIN.finditer(text)}
