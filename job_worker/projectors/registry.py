"""Finds the projectors of all job types, or says at start-up which are missing."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from job_worker.projectors.projector import Projector
from shared.catalog import modules as module_rules
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
        StartupFault: A module can't be imported, a key stands for two projectors or for what is no coroutine
            function, or a definition names one that nobody has.
    """
    found, faults = dict[str, Projector](), list[str]()
    for name in (_SHIPPED, *(f"{module}.projectors" for module in modules)):
        for key, projector in _imported(name, faults).items():
            if key in found:
                faults.append(f"the projector {key!r} is there twice, the second time in {name!r}")
            if not _is_coroutine_function(projector):
                faults.append(f"the projector {key!r} of {name!r} must be a coroutine function (async def)")
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
    module = module_rules.imported(name, faults, optional=True)
    projectors = getattr(module, "PROJECTORS", {})
    if isinstance(projectors, Mapping):
        return projectors
    faults.append(f"the module {name!r} has PROJECTORS that are no mapping")
    return {}


def _is_coroutine_function(projector: Projector) -> bool:
    called = getattr(projector, "__call__", None)  # noqa: B004 - of an object; a function has one too
    return inspect.iscoroutinefunction(projector) or inspect.iscoroutinefunction(called)
