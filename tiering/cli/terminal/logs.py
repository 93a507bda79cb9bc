"""Logging of the long-running commands: one line an event, to standard error; an object on a line with `--log-format json`.

Every text in it is redacted, cut, and free of control characters, whoever logs it: a line end in a name is no new line of the log. Only
the stack of an unexpected error has several lines, each set in, so that none of them can be taken for an event; in JSON it is a text.
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
"""Characters of a stack, the last ones: they name the error."""
_LONGEST_STACK = 1_000_000
_STACKS = ("exception", "stack")
_INDENT = "    | "


class LogFormat(StrEnum):
    """How lines are written."""

    CONSOLE = "console"
    JSON = "json"


def configure_logging(level: str = "info", log_format: LogFormat = LogFormat.CONSOLE) -> None:
    """Structured lines on stderr; what libraries log, and unexpected errors that end the process, the same way.

    As JSON, what libraries log has timestamp, level and event as well, and the name of its logger.
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
    """An unexpected error that ends the process shows its stack as the logs do."""
    sys.excepthook = _print_stack


def clean_values(_logger: object, _name: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """The event with clean texts; numbers, truth values and None stay."""
    return {key: clean_stack(str(value)) if key in _STACKS else _clean(value) for key, value in event.items()}


def clean_stack(text: str) -> str:
    """A stack: redacted, each line set in and cut, the last lines if there are many."""
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
    """Of what libraries log."""

    def format(self, record: logging.LogRecord) -> str:
        line, _, stack = super().format(record).partition("\n")
        return f"{_clean(line)}\n{clean_stack(stack)}" if stack else str(_clean(line))


class _JsonFormatter(logging.Formatter):
    """The same as an object on a line."""

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
