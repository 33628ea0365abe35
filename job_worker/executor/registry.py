"""Finds the handlers of the job types that an executor announces, and checks that they fit."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from job_worker.executor.handler import Handler, JobContext
from shared.catalog import modules as module_rules
from shared.catalog.catalog import Catalog
from shared.catalog.definition import JobDefinition
from shared.domain.identity import JobType
from shared.runtime.faults import StartupFault

SHIPPED_MODULE = "job_worker.handlers.shipped"
"""The engine's own handlers are found like a user's."""
_PARAMETERS = 2


@dataclass(frozen=True, slots=True)
class RunnableJob:
    """A job type with the function that does it.

    Attributes:
        plain: It is not async, and runs in a thread.
    """

    definition: JobDefinition
    handler: Callable[..., Any]
    plain: bool


def load(
    catalog: Catalog, job_types: Sequence[str], modules: Sequence[str] = ()
) -> Mapping[JobType, RunnableJob]:
    """Find the handlers of some job types.

    Args:
        job_types: Those that are announced.
        modules: Packages of a deployment; the submodule `handlers` of each holds `HANDLERS`, a mapping from
            job type to handler.

    Raises:
        StartupFault: A module can't be imported, a handler is missing or does not fit; all faults at once.
    """
    faults = list[str]()
    handlers = dict[str, Handler]()
    for name in (SHIPPED_MODULE, *(f"{each}.handlers" for each in modules)):
        found = _handlers_of(name, faults)
        faults += [f"job type {each!r} has two handlers" for each in sorted(handlers.keys() & found.keys())]
        handlers |= found
    unknown = sorted(handlers.keys() - {str(each) for each in catalog.definitions})
    faults += [f"there is a handler for the job type {each!r}, which no definition names" for each in unknown]
    jobs = {}
    for job_type in job_types:
        definition = catalog.definition(job_type)
        if job_type not in handlers:
            faults.append(f"job type {job_type!r} has no handler: add one, or don't announce the type")
            continue
        faults += _misfits(definition, handlers[job_type])
        jobs[definition.job_type] = _runnable(definition, handlers[job_type])
    if faults:
        raise StartupFault(faults)
    return jobs


def _handlers_of(module: str, faults: list[str]) -> Mapping[str, Handler]:
    found = module_rules.imported(module, faults)
    if found is None:
        return {}
    handlers = getattr(found, "HANDLERS", None)
    if isinstance(handlers, Mapping):
        return handlers
    lack = "has no HANDLERS" if handlers is None else "has HANDLERS that are no mapping"
    faults.append(f"the module {module!r} {lack}")
    return {}


def _runnable(definition: JobDefinition, handler: Handler) -> RunnableJob:
    call = handler if inspect.isroutine(handler) else getattr(handler, "__call__", handler)  # noqa: B004
    return RunnableJob(definition, handler, plain=not inspect.iscoroutinefunction(call))


def _misfits(definition: JobDefinition, handler: Handler) -> Iterator[str]:
    who = f"the handler of {definition.job_type!r}"
    try:
        hints = typing.get_type_hints(handler)
        parameters = list(inspect.signature(handler).parameters.values())
    except (NameError, TypeError, ValueError) as error:
        yield f"{who} can't be read: {error}"
        return
    if len(parameters) != _PARAMETERS:
        yield f"{who} must take a context and an input"
        return
    context, given = (hints.get(each.name) for each in parameters)
    if not _is_a(JobContext, context):
        yield f"{who} must take a JobContext first, not {_name(context)}"
    if not _is_a(definition.input_model, given):
        yield f"{who} must take {definition.input_model.__name__}, not {_name(given)}"
    made = hints.get("return")
    if not (isinstance(made, type) and issubclass(made, BaseModel) and _is_a(made, definition.output_model)):
        yield f"{who} must return {definition.output_model.__name__}, not {_name(made)}"


def _is_a(one: type, other: Any) -> bool:
    return isinstance(other, type) and issubclass(one, other)


def _name(annotation: Any) -> str:
    return "what it does not say" if annotation is None else getattr(annotation, "__name__", str(annotation))
