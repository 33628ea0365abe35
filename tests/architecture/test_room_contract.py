"""The contract about rooms finds what it is there for."""

from __future__ import annotations

import tomllib

import grimp

from tests.architecture.room_contract import ANY_ROOM_OF_ITS_OWN, House, Row
from tests.architecture.source import REPOSITORY

HOUSE = House(
    rows=(
        Row.parse("shared.domain:"),
        Row.parse("shared.storage: shared.domain | sqlalchemy"),
        Row.parse("job_api.operations: shared.storage shared.domain"),
        Row.parse("job_api.app: *"),
    ),
    pure=frozenset({"shared.domain"}),
)


def complaints(importer: str, imported: str) -> list[str]:
    graph = grimp.ImportGraph()
    for module in (importer, imported):
        graph.add_module(module)
    graph.add_import(importer=importer, imported=imported)
    return list(HOUSE.complaints(graph))


def test_an_import_along_a_row_is_allowed() -> None:
    assert complaints("job_api.operations.create_job", "shared.storage.jobs") == []


def test_an_import_against_a_row_is_named_with_both_ends() -> None:
    assert complaints("shared.storage.jobs", "job_api.app") == [
        "shared.storage.jobs imports job_api.app, which the row of shared.storage does not allow"
    ]


def test_the_place_where_all_is_put_together_may_import_every_room_of_its_service_and_the_core() -> None:
    assert complaints("job_api.app", "job_api.operations.create_job") == []
    assert complaints("job_api.app", "shared.storage.jobs") == []


def test_a_library_belongs_to_the_rooms_that_name_it() -> None:
    assert complaints("shared.storage.jobs", "sqlalchemy") == []
    assert len(complaints("job_api.operations.create_job", "sqlalchemy")) == 1


def test_a_library_that_no_room_names_is_for_every_room_but_the_pure_ones() -> None:
    assert complaints("shared.storage.jobs", "structlog") == []
    assert len(complaints("shared.domain.job", "structlog")) == 1
    assert complaints("shared.domain.job", "dataclasses") == []


def test_a_module_outside_every_room_is_named() -> None:
    assert "job_api.odds_and_ends stands in no room" in complaints(
        "job_api.odds_and_ends", "shared.domain.job"
    )


def test_every_room_that_the_table_names_is_there() -> None:
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    (table,) = (each["rows"] for each in contracts if each["type"] == "rooms")
    rows = [Row.parse(row) for row in table]
    named = {each for row in rows for each in (row.room, *row.rooms) if each != ANY_ROOM_OF_ITS_OWN}

    places = {each: REPOSITORY.joinpath(*each.split(".")) for each in named}
    assert [each for each, at in places.items() if not (at.is_dir() or at.with_suffix(".py").is_file())] == []
