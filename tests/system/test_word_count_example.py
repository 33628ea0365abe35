"""The example of a job type of one's own: named by a setting, with nothing else changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from job_api.client.client import Client
from shared.domain.jobs import JobState
from verification.stage import stack

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    named = {"PYTHONPATH": str(EXAMPLES), "BATON_JOB_MODULES": "word_count"}
    directory = tmp_path_factory.mktemp("word_count") / "stack"
    running = stack.running(directory, environment={**stack.SHORT_TIMES, **named})
    with running as engine, Client(engine.control) as opened:
        yield opened


def test_its_job_runs_and_its_artifacts_can_be_read(client: Client) -> None:
    job = client.create_job("word_count", {"text": "to be or not\nto be", "top": 2})
    for _ in client.watch(job.job_id):
        pass

    assert client.get(job.job_id).state is JobState.SUCCEEDED
    assert client.output(job.job_id) == {
        "words": 6,
        "top": [{"word": "be", "count": 2}, {"word": "to", "count": 2}],
    }
    read_back = [(each.type, each.content) for each in client.artifacts(job.job_id, content=True)]
    assert read_back == [("word", {"word": "be", "count": 2}), ("word", {"word": "to", "count": 2})]


def test_its_failure_is_told_in_its_own_words_and_not_retried(client: Client) -> None:
    job = client.create_job("word_count", {"text": "1, 2, 3"})
    for _ in client.watch(job.job_id):
        pass

    ended = client.get(job.job_id)
    assert (ended.state, ended.attempt) == (JobState.FAILED, 1)
    assert ended.error is not None
    assert (ended.error.code, ended.error.message) == ("INPUT_NO_WORDS", "The text has no words.")


def test_it_is_listed_among_the_job_types(client: Client) -> None:
    assert "word_count" in {each.job_type for each in client.definitions()}
