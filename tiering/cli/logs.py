"""Logging of the long-running commands: one line an event, to standard error."""

from __future__ import annotations

import logging
import sys

import structlog

from tiering.redact import redact


def configure_logging(level: str = "info") -> None:
    """Structured lines on stderr; every text value passes the redactor."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _redact_values,
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _redact_values(_logger: object, _name: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    return {key: redact(value) if isinstance(value, str) else value for key, value in event.items()}
