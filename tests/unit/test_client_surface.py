"""What programs import from the client, and what it refuses before it asks anyone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast
from uuid import UUID

import pytest

from job_api.client import (
    AsyncClient,
    BatchId,
    BatchState,
    Client,
    JobId,
    JobState,
    batch_convert,
    errors,
    selecting,
)
from shared.domain.errors import BatonError, IllegalTransition

NOBODY = "127.0.0.1:9"
ID = UUID(int=1)


def test_every_refusal_is_imported_from_the_module_of_errors() -> None:
    named = {
        getattr(errors, name).reason for name in errors.__all__ if hasattr(getattr(errors, name), "reason")
    }

    assert named == {kind.reason for kind in every_kind(BatonError)} - {IllegalTransition.reason}


def every_kind(kind: type[BatonError]) -> list[type[BatonError]]:
    below = [each for child in kind.__subclasses__() for each in every_kind(child)]
    return [kind, *below] if "reason" in vars(kind) else below


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("timeout", [10, 2.5])
def test_a_timeout_that_is_no_span_is_refused_at_once(kind: type[Any], timeout: object) -> None:
    with pytest.raises(TypeError, match="timeout is a timedelta, such as timedelta"):
        kind(NOBODY, timeout=timeout)


def test_a_number_of_seconds_to_wait_is_refused_before_anything_is_created() -> None:
    seconds: Any = 5
    with Client(NOBODY, timeout=timedelta(seconds=1)) as client:
        for call in (
            lambda: client.run("synthetic", {}, within=seconds),
            lambda: client.run_batch("synthetic", [{}], within=seconds),
            lambda: client.result(JobId(ID), within=seconds),
            lambda: client.settled_batch(BatchId(ID), within=seconds),
        ):
            with pytest.raises(TypeError, match="within is a timedelta"):
                call()


async def test_the_client_for_asyncio_refuses_it_too() -> None:
    seconds: Any = 5
    async with AsyncClient(NOBODY, timeout=timedelta(seconds=1)) as client:
        with pytest.raises(TypeError, match="within is a timedelta"):
            await client.run("synthetic", {}, within=seconds)
        with pytest.raises(TypeError, match="within is a timedelta"):
            await client.run_batch("synthetic", [{}], within=seconds)


def test_a_word_that_a_filter_or_options_do_not_have_is_refused() -> None:
    misspelt: Any = {"lables": {"night": "1"}}
    with Client(NOBODY, timeout=timedelta(seconds=1)) as client:
        for call in (
            lambda: client.create_job("synthetic", {}, **misspelt),
            lambda: client.create_batch("synthetic", [{}], **misspelt),
            lambda: client.cancel_jobs(job_type="synthetic", **misspelt),
            lambda: client.retry_jobs(job_type="synthetic", **misspelt),
            lambda: next(client.list(**misspelt)),
            lambda: next(client.batches(**misspelt)),
            lambda: next(client.watch_jobs(**misspelt)),
            lambda: next(client.audit_records(**misspelt)),
        ):
            with pytest.raises(TypeError, match="there is no 'lables'; there are "):
                call()


def test_a_states_word_does_as_well_as_the_state_and_any_other_is_refused() -> None:
    words: Any = ["FAILED"]
    assert selecting.filter_message({"states": words}) == selecting.filter_message(
        {"states": [JobState.FAILED]}
    )
    assert batch_convert.state_number(words[0]) == batch_convert.state_number(BatchState.FAILED)
    with pytest.raises(ValueError, match="'DONE' is not a valid JobState"):
        selecting.filter_message({"states": cast("Any", ["DONE"])})
