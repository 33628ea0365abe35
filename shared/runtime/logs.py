"""Log lines: JSON for machines, readable in a terminal; the libraries' own lines in the same form."""

from __future__ import annotations

import logging
import sys
from typing import Literal

import structlog
from structlog.typing import Processor

LogFormat = Literal["auto", "json", "text"]
LogLevel = Literal["debug", "info", "warning", "error"]


def configure(*, level: LogLevel, log_format: LogFormat) -> None:
    """Send every log line of this process to standard error.

    Args:
        level: The lowest level that is written.
        log_format: "auto" is text in a terminal, and JSON elsewhere.
    """
    stream = sys.stderr
    as_json = log_format == "json" or (log_format == "auto" and not stream.isatty())
    severity = getattr(logging, level.upper())
    chain = _chain()
    renderers = _json() if as_json else _text(colors=stream.isatty())
    structlog.configure(
        processors=[*chain, *renderers],
        wrapper_class=structlog.make_filtering_bound_logger(severity),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*chain, structlog.stdlib.ExtraAdder(), structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
        )
    )
    logging.basicConfig(handlers=[handler], level=max(severity, logging.INFO), force=True)
    logging.captureWarnings(True)


def _chain() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]


def _json() -> list[Processor]:
    # Locals in a traceback would put payloads and secrets into the log.
    tracebacks = structlog.processors.ExceptionRenderer(
        structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
    )
    return [tracebacks, structlog.processors.JSONRenderer(default=str)]


def _text(*, colors: bool) -> list[Processor]:
    return [structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)]
