"""Logging of long-running commands: one line per event on standard error, as a JSON object with `--log-format json`.

Every text is redacted, shortened, and without control characters, so that a line break in a name does not begin a new line of the log.
Only the stack of an unexpected error has several lines. They are indented, so that they do not look like events. In JSON, a stack is text.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from enum import StrEnum
from types import TracebackType
from typing import Any

import structlog

from tiering.redaction.redact import cut_message, outside_text, redact
from tiering.redaction.visible_text import visible_line

STACK_LIMIT = 16 * 1_024
"""Last characters of a stack that are shown. They name the error."""
_LONGEST_STACK = 1_000_000
_STACKS = ("exception", "stack")
_INDENT = "    | "


class LogFormat(StrEnum):
    """Format of log lines."""

    CONSOLE = "console"
    JSON = "json"


def configure_logging(level: str = "info", log_format: LogFormat = LogFormat.CONSOLE) -> None:
    """Configures structured lines on standard error, also for messages of libraries and for unexpected errors that end the process.

    As JSON, messages of libraries have timestamp, level, event and the name of their logger.
    """
    as_json = log_format is LogFormat.JSON
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            clean_values,
            structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if as_json else _CleanFormatter("%(asctime)s [%(levelname)s] %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    show_errors_clean()


def show_errors_clean() -> None:
    """Shows the stack of an unexpected error that ends the process as in the logs."""
    sys.excepthook = _print_stack


def clean_values(_logger: object, _name: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Returns an event with redacted, visible texts. Numbers, booleans and None stay unchanged."""
    return {key: clean_stack(str(value)) if key in _STACKS else _clean(value) for key, value in event.items()}


def clean_stack(text: str) -> str:
    """Returns a redacted stack with indented, shortened lines. A long stack keeps only its last lines."""
    lines: list[str] = []
    room = STACK_LIMIT
    for line in reversed(redact(text[-_LONGEST_STACK:]).rstrip("\n").split("\n")):
        shown = _INDENT + cut_message(visible_line(line))
        room -= len(shown)
        if room < 0:
            break
        lines.append(shown)
    return "\n".join(reversed(lines))


def _clean(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    return cut_message(visible_line(outside_text(value if isinstance(value, str) else repr(value))))


class _CleanFormatter(logging.Formatter):
    """Formats messages of libraries."""

    def format(self, record: logging.LogRecord) -> str:
        line, _, stack = super().format(record).partition("\n")
        return f"{_clean(line)}\n{clean_stack(stack)}" if stack else str(_clean(line))


class _JsonFormatter(logging.Formatter):
    """Formats messages of libraries as JSON objects."""

    def format(self, record: logging.LogRecord) -> str:
        line, _, stack = super().format(record).partition("\n")
        fields = {
            "event": _clean(line),
            "level": record.levelname.lower(),
            "logger": _clean(record.name),
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z"),
        }
        return json.dumps(fields | ({"exception": clean_stack(stack)} if stack else {}))


def _print_stack(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if isinstance(error, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    print(clean_stack("".join(traceback.format_exception(kind, error, trace))), file=sys.stderr)
