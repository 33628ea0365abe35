"""What callers, watchers and scripted executors said and were told, in the order in which they saw it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

Message = Mapping[str, Any]
"""A protobuf message in its JSON form: names in lowerCamelCase, bytes in Base64, 64-bit numbers as text."""

OK = "OK"
LEFT = "LEFT"
"""The status of a call that the caller gave up: what became of it is unknown."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call and its answer.

    Attributes:
        caller: Who called, where a check tells several apart.
        response: None where the call failed or was left.
        status: gRPC's name of it; `OK` for an answer.
        reason: Of the engine, from `ErrorInfo`; empty without one.
        begin: Seconds since the history began, by this process's monotonic clock.
        end: Likewise, when the answer was there.
    """

    caller: str
    method: str
    request: Message
    response: Message | None
    status: str
    reason: str
    begin: float
    end: float

    @property
    def acknowledged(self) -> bool:
        return self.status == OK


@dataclass(frozen=True, slots=True)
class Told:
    """One message of a watch.

    Attributes:
        watch: Names the watcher; one that resumes keeps its name.
    """

    watch: str
    job_id: str
    update: Message
    time: float


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a session of a scripted executor.

    Attributes:
        session: Names the session.
        sent: True if the executor sent it, False if it received it.
    """

    session: str
    sent: bool
    content: Message
    time: float


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that was done to a process: killed, paused, resumed, stopped, wiped, cut."""

    process: str
    what: str
    time: float


@dataclass(slots=True)
class History:
    """Grows while checks run; never shortened."""

    calls: list[Call] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)

    def now(self) -> float:
        """Seconds since the history began."""
        return time.monotonic() - self._began

    def fault(self, process: str, what: str) -> None:
        self.faults.append(Fault(process, what, self.now()))

    def write(self, path: Path) -> None:
        """Write a line of JSON for each entry, in the order of their times."""
        entries = sorted(
            [
                *(("call", each.end, asdict(each)) for each in self.calls),
                *(("told", each.time, asdict(each)) for each in self.told),
                *(("frame", each.time, asdict(each)) for each in self.frames),
                *(("fault", each.time, asdict(each)) for each in self.faults),
            ],
            key=lambda entry: entry[1],
        )
        with path.open("w") as file:
            for kind, _, body in entries:
                file.write(json.dumps({"kind": kind, **body}) + "\n")
