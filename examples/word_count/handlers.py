"""How a job is done; loaded by executors only."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from job_worker.executor.handler import Handler, HandlerFailure, JobContext
from word_count.definitions import WordCount, WordCountInput, WordCountOutput

_WORD = re.compile(r"[^\W\d_]+")


def count_words(context: JobContext, request: WordCountInput) -> WordCountOutput:
    """Count; a plain function, which runs in a thread and may compute as long as its time-out allows."""
    counts = Counter[str]()
    lines = request.text.splitlines() or [""]
    for number, line in enumerate(lines, start=1):
        context.raise_if_cancelled()
        counts.update(word.casefold() for word in _WORD.findall(line))
        context.report_progress(100 * number / len(lines), f"line {number} of {len(lines)}")
    if not counts:
        raise HandlerFailure("INPUT_NO_WORDS", "The text has no words.")  # INPUT_*: trying again can't help
    ranked = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return WordCountOutput(
        words=counts.total(), top=[WordCount(word=word, count=n) for word, n in ranked[: request.top]]
    )


HANDLERS: Mapping[str, Handler] = {"word_count": count_words}
