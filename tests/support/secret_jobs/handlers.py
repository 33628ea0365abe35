"""What they do: one thing for each word."""

from __future__ import annotations

from collections.abc import Mapping

from job_worker.executor.handler import Handler, HandlerFailure, JobContext
from tests.support.secret_jobs.definitions import Errand, Told


async def run_errand(context: JobContext, errand: Errand) -> Told:
    document = context.document()
    secret = document.content.decode() if document else errand.secret
    await context.emit(secret)
    match errand.do:
        case "crash":
            raise RuntimeError(secret)
        case "fail":
            raise HandlerFailure("PROVIDER_BROKEN", "it broke", internal_message=secret)
        case "misfit":
            return Told.model_validate({"secret": secret, "do": "", "number": secret})
        case "nonsense":
            return Told.model_construct(secret=secret, do="", number=secret)  # type: ignore[arg-type]
        case _:
            return Told(secret=secret, do=errand.do)


HANDLERS: Mapping[str, Handler] = {"errand": run_errand}
