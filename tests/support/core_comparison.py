"""What a machine that draws commands at random stands on: the core, its model, and the comparison of both."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from hypothesis.stateful import RuleBasedStateMachine, invariant

from shared.domain.identity import StreamName
from tests.support import core_rows
from tests.support.core_commands import Core
from tests.support.core_invariants import faults_of
from tests.support.core_model import CoreModel
from tests.support.core_views import differences, view_of_model, view_of_rows
from tests.support.frozen_time import FrozenTime

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class CoreUnderTest:
    """What all machines of a run share; each begins by emptying it."""

    runner: asyncio.Runner
    core: Core
    time: FrozenTime


class CoreComparison(RuleBasedStateMachine):
    """Empties what it is given, and compares all rows with the model after every command.

    To be run as a subclass that says what is under test.
    """

    under_test: ClassVar[CoreUnderTest]

    def __init__(self) -> None:
        super().__init__()
        shared = self.under_test
        self._runner, self._core, self._time = shared.runner, shared.core, shared.time
        self._run(self._begin())
        self._model = CoreModel(self._time.now)

    def _run(self, command: Coroutine[Any, Any, Result]) -> Result:
        return self._runner.run(command)

    async def _begin(self) -> None:
        await core_rows.empty(self._core.transactions)
        await self._core.wipe()
        await self._time.restart()
        self._core.restart()

    @invariant()
    def both_tell_the_same(self) -> None:
        everything = self._run(core_rows.read_all(self._core.transactions))
        assert faults_of(everything) == []
        assert set(everything) == set(self._model.jobs)
        for job_id, rows in everything.items():
            assert differences(view_of_model(self._model.jobs[job_id]), view_of_rows(rows)) == [], job_id

    def _missing(self) -> set[StreamName]:
        return {stream for stream, length in self._run(self._core.lengths()).items() if length is None}
