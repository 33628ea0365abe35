"""Finds the projectors of all job types, or says at start-up which are missing."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from job_worker.projectors.projector import Projector
from shared.catalog.catalog import Catalog
from shared.runtime.faults import StartupFault

_SHIPPED = "job_worker.projectors.shipped"
"""The engine's own projectors are found like a user's."""


def load(catalog: Catalog, modules: Sequence[str] = ()) -> Mapping[str, Projector]:
    """Return every projector by its key.

    Args:
        modules: Packages of a deployment; the submodule `projectors` of each may hold `PROJECTORS`, a mapping
            from key to projector.

    Raises:
        StartupFault: A module can't be imported, a key stands for two projectors, or a definition names one
            that nobody has.
    """
    found, faults = dict[str, Projector](), list[str]()
    for name in (_SHIPPED, *(f"{module}.projectors" for module in modules)):
        for key, projector in _imported(name, faults).items():
            if key in found:
                faults.append(f"the projector {key!r} is there twice, the second time in {name!r}")
            found[key] = projector
    faults += [
        f"job type {definition.job_type!r}: there is no projector {definition.projector!r}"
        for definition in catalog.definitions.values()
        if definition.projector not in found
    ]
    if faults:
        raise StartupFault(faults)
    return MappingProxyType(found)


def _imported(name: str, faults: list[str]) -> Mapping[str, Projector]:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            faults.append(f"the module {name!r} can't be imported: {error}")
        return {}
    except ImportError as error:
        faults.append(f"the module {name!r} can't be imported: {error}")
        return {}
    projectors: Mapping[str, Projector] = getattr(module, "PROJECTORS", {})
    return projectors
