"""Whether a watcher was told all is judged by what it was told, and by nothing that it was not."""

from __future__ import annotations

import pytest

from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from verification.cases.told_story import Item, after, require_told
from verification.unmet import Unmet


def event(number: int, kind: str, attempt: int) -> pb.WatchJobResponse:
    kind_number = job_pb2.JobEventKind.Value(f"JOB_EVENT_KIND_{kind.upper()}")
    return pb.WatchJobResponse(event=job_pb2.JobEvent(number=number, kind=kind_number, attempt=attempt))


def piece(attempt: int, number: int, text: str = "a") -> pb.WatchJobResponse:
    return pb.WatchJobResponse(piece=pb.WatchedPiece(attempt=attempt, number=number, text=text))


STORY: list[Item] = [
    ("event", (1, "created", 0)),
    ("event", (2, "started", 1)),
    ("piece", (1, 1, "a")),
    ("piece", (1, 2, "a")),
    ("event", (3, "succeeded", 1)),
]
UPDATES = [event(1, "created", 0), event(2, "started", 1), piece(1, 1), piece(1, 2), event(3, "succeeded", 1)]


def test_a_watcher_that_was_told_all_is_content() -> None:
    progress = pb.WatchJobResponse(progress=pb.JobProgress(attempt=1, progress=50))
    require_told("it", [*UPDATES[:3], progress, *UPDATES[3:]], STORY)


@pytest.mark.parametrize(
    ("updates", "sentence"),
    [
        ([*UPDATES[:2], *UPDATES[3:]], "should be piece 1.1 and is piece 1.2"),
        ([*UPDATES[:3], *UPDATES[2:]], "should be piece 1.2 and is piece 1.1"),
        (UPDATES[:-1], "was told 4 things of 5"),
        ([*UPDATES, UPDATES[-1]], "was told 6 things of 5"),
        ([*UPDATES[:2], piece(1, 1, "b"), *UPDATES[3:]], "should be piece 1.1"),
        ([*UPDATES[:2], piece(2, 1), *UPDATES[3:]], "should be piece 1.1 and is piece 2.1"),
        ([UPDATES[1], UPDATES[0], *UPDATES[2:]], "should be event 1 created"),
    ],
    ids=["gap", "repeat", "cut off", "told twice at the end", "other text", "other attempt", "out of order"],
)
def test_a_watcher_that_was_told_anything_else_is_not(
    updates: list[pb.WatchJobResponse], sentence: str
) -> None:
    with pytest.raises(Unmet, match=sentence):
        require_told("it", updates, STORY)


def test_who_resumes_is_owed_what_follows_its_last_update() -> None:
    assert after(STORY, piece(1, 1)) == STORY[3:]
    assert after(STORY, event(2, "started", 1)) == STORY[2:]
