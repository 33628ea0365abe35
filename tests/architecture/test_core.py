"""`shared/` is a core and no attic: what lies in it carries more than one program."""

from __future__ import annotations

from collections.abc import Iterator

import grimp

from shared.catalog.catalog import SHIPPED_MODULE

PROGRAMS = ("job_api", "job_worker", "shared.command")
KEPT_TOGETHER = ("shared.storage", "shared.streams", "shared.command", "shared.gen")
"""All SQL, all Redis commands, the command and all generated code lie in one place, whoever uses them."""


def one_sided(graph: grimp.ImportGraph) -> Iterator[str]:
    """Yield a line for each module of the core on which fewer than two programs stand."""
    for module in sorted(graph.modules):
        if _root(module) != "shared" or graph.find_children(module) or _is_in(module, KEPT_TOGETHER):
            continue
        users = graph.find_downstream_modules(module)
        programs = [each for each in PROGRAMS if any(_is_in(user, (each,)) for user in users)]
        if len(programs) < 2:
            yield f"{module} is used by {programs[0] if programs else 'nobody'} alone"


def test_at_least_two_programs_stand_on_every_module_of_the_core() -> None:
    graph = grimp.build_graph("shared", "job_api", "job_worker", cache_dir=None)
    graph.add_import(importer="shared.catalog.catalog", imported=SHIPPED_MODULE)  # by its name, at run time

    assert list(one_sided(graph)) == []


def test_a_module_that_one_service_alone_uses_would_be_seen() -> None:
    graph = grimp.ImportGraph()
    for importer, imported in (
        ("job_api.app", "shared.domain.jobs"),
        ("job_worker.app", "shared.domain.jobs"),
        ("job_api.app", "shared.domain.bills"),
        ("job_worker.app", "shared.storage.bills"),
    ):
        graph.add_module(importer)
        graph.add_module(imported)
        graph.add_import(importer=importer, imported=imported)

    assert list(one_sided(graph)) == ["shared.domain.bills is used by job_api alone"]


def _root(module: str) -> str:
    return module.partition(".")[0]


def _is_in(module: str, rooms: tuple[str, ...]) -> bool:
    return any(f"{module}.".startswith(f"{each}.") for each in rooms)
