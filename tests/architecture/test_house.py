"""The sizes and names that the house allows."""

from __future__ import annotations

import ast

from tests.architecture.source import modules

MODULE_LINES_MAX = 300
FUNCTION_LINES_MAX = 60
NAMES_OF_ATTICS = {"base", "common", "helper", "helpers", "misc", "util", "utils"}
SUFFIXES_THAT_SAY_NOTHING = ("Data", "Handler", "Helper", "Info", "Manager")


def test_no_module_is_longer_than_a_person_reads() -> None:
    lengths = {str(module): len(module.text.splitlines()) for module in modules()}

    assert {name: lines for name, lines in lengths.items() if lines > MODULE_LINES_MAX} == {}


def test_no_function_is_longer_than_a_screen() -> None:
    lengths = {
        f"{module}:{function.lineno} {function.name}": (function.end_lineno or 0) - function.lineno + 1
        for module in modules()
        for function in module.functions()
    }

    assert {name: lines for name, lines in lengths.items() if lines > FUNCTION_LINES_MAX} == {}


def test_no_module_and_no_folder_is_named_like_an_attic() -> None:
    attics = [str(module) for module in modules() if NAMES_OF_ATTICS & set(module.place.parts)]

    assert attics == []


def test_no_class_has_a_name_that_says_nothing() -> None:
    classes = [f"{module}: {node.name}" for module in modules() for node in module.classes()]

    assert [name for name in classes if name.endswith(SUFFIXES_THAT_SAY_NOTHING)] == []


def test_every_module_of_the_product_says_what_it_is_for() -> None:
    product = [module for module in modules() if module.place.parts[0] != "tests"]

    silent = [str(module) for module in product if ast.get_docstring(module.tree) is None]

    assert silent == []
