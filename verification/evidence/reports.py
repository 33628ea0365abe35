"""Reports of scripted executors, each with the answer that it got."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from verification.evidence.history import History, Message

_OUTCOME = "REPORT_OUTCOME_"


@dataclass(slots=True)
class Report:
    """One report.

    Attributes:
        content: What it said of the attempt; equal for reports that say the same.
        sent: When, as in the history.
        outcome: `ACCEPTED`, `LEASE_LOST` and so on; empty if no answer came.
    """

    job_id: str
    token: str
    content: str
    sent: float
    outcome: str = ""
    reason: str = field(default="")

    @property
    def epoch(self) -> int:
        return epoch_of(self.token)


def epoch_of(token: str) -> int:
    """The number of the lease that a token is of."""
    number = token.partition(".")[0]
    return int(number) if number.isdigit() else 0


def reports(history: History) -> Sequence[Report]:
    """All reports in the order of their sending; within a session, answers about one lease come in order."""
    found: list[Report] = []
    open_ones: dict[tuple[str, str], deque[Report]] = defaultdict(deque)
    for frame in history.frames:
        if frame.sent:
            for each in _sent(frame.content, frame.time):
                found.append(each)
                open_ones[frame.session, each.token].append(each)
            continue
        for answer in frame.content.get("answers", ()):
            waiting = open_ones[frame.session, answer["lease"].get("token", "")]
            if waiting:
                report = waiting.popleft()
                report.outcome = answer.get("outcome", "").removeprefix(_OUTCOME)
                report.reason = answer.get("reason", "")
    return found


def _sent(content: Message, time: float) -> Iterator[Report]:
    for each in content.get("reports", ()):
        lease = each.get("lease", {})
        said = {name: value for name, value in each.items() if name != "lease"}
        yield Report(lease.get("jobId", ""), lease.get("token", ""), json.dumps(said, sort_keys=True), time)
