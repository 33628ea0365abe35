"""What a result leaves behind; loaded by the worker service only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel

from job_worker.projectors.projector import ProjectedJob, ProjectionTransaction, Projector
from shared.domain.jobs import Artifact
from word_count.definitions import WordCountOutput


async def project_word_count(
    transaction: ProjectionTransaction, job: ProjectedJob, output: BaseModel
) -> Sequence[Artifact]:
    """Make an artifact of each word.

    It runs inside the transaction that marks the job SUCCEEDED: `transaction.insert` would write rows of a
    table of one's own with it, or not at all.
    """
    assert isinstance(output, WordCountOutput)
    return [
        Artifact(type="word", id=each.word, ordinal=ordinal, content=each.model_dump_json().encode())
        for ordinal, each in enumerate(output.top, start=1)
    ]


PROJECTORS: Mapping[str, Projector] = {"word_count": project_word_count}
