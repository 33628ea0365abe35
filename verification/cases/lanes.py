"""Lanes: an api of its own each, and a caller whose way to it can swallow what passes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from shared.gen.baton.v1 import job_control_pb2 as pb
from verification.peers.control import Control
from verification.peers.cuttable import Cuttable, cuttable
from verification.stage.spare_services import SpareService, spare_api
from verification.stage.stage import Stage


@dataclass(frozen=True, slots=True)
class Lane:
    """One api, its caller, and the way between them."""

    stage: Stage
    api: SpareService
    way: Cuttable
    caller: Control

    async def connect(self) -> None:
        """See to it that a connection stands: only on such a one can a reply alone be lost."""
        await self.caller.insist("ListJobDefinitions", pb.ListJobDefinitionsRequest())

    async def come_back(self) -> None:
        """Let the caller notice that its connection is gone, and start the api again."""
        self.way.heal()
        self.way.reset()
        await self.api.start()


@asynccontextmanager
async def lane(stage: Stage, name: str = "spare-api") -> AsyncIterator[Lane]:
    """Start an api, and call it by a way of its own."""
    async with (
        spare_api(stage, name) as api,
        cuttable(f"//{api.address}") as way,
        stage.calling(way.address) as caller,
    ):
        yield Lane(stage, api, way, caller)
