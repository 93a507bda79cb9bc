"""The log has one clean line per event, from every logger."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime

import pytest
import structlog

from tiering.cli.terminal.logs import STACK_LIMIT, LogFormat, configure_logging
from tiering.log_context import round_lines
from tiering.redaction.redact import MESSAGE_LIMIT

SECRET = "hunter2Xq9"


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """Output on standard error."""
    handlers = logging.getLogger().handlers[:]
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    configure_logging()
    yield stream
    structlog.reset_defaults()
    logging.getLogger().handlers[:] = handlers


def test_no_value_makes_a_line_or_steers_a_terminal(logs: io.StringIO) -> None:
    hostile = "a\n2026-01-01 [info] forged\x1b[2J\x9b\u202e\u2028\r\x0b"
    structlog.get_logger().info("call ended", caller=hostile, names=[hostile], error=ValueError(hostile), count=3)
    [line] = logs.getvalue().rstrip("\n").split("\n")
    assert "count=3" in line
    assert "\\n2026-01-01" in line
    assert not set(line) & set("\x1b\x9b\u202e\u2028\r\x0b")


def test_a_long_value_is_cut_and_a_secret_masked_in_every_kind_of_value(logs: io.StringIO) -> None:
    structlog.get_logger().info(
        f"password={SECRET}", caller="x" * 3_000_000, properties={"token": SECRET}, error=ValueError(f"https://me:{SECRET}@host")
    )
    [line] = logs.getvalue().rstrip("\n").split("\n")
    assert SECRET not in line
    assert len(line) < MESSAGE_LIMIT + 500


def test_a_stack_is_clean_cut_and_set_in(logs: io.StringIO) -> None:
    try:
        raise ValueError(f"password={SECRET}\n2026-01-01 [info] forged\x1b[2J" + "y" * 200_000)
    except ValueError:
        structlog.get_logger().exception("it failed")
    first, *stack = logs.getvalue().rstrip("\n").split("\n")
    assert "it failed" in first
    assert all(line.startswith("    | ") for line in stack)
    text = "\n".join(stack)
    assert SECRET not in text
    assert "\x1b" not in text
    assert len(text) < STACK_LIMIT * 2


def test_what_libraries_log_is_clean_too(logs: io.StringIO) -> None:
    logging.getLogger("pyiceberg.catalog").warning("cannot open %s\nforged \x1b[2J", f"https://me:{SECRET}@host")
    lines = logs.getvalue().rstrip("\n").split("\n")
    assert SECRET not in "".join(lines)
    assert lines[1].startswith("    | forged \\x1b")


def test_an_unexpected_error_ends_a_command_with_a_clean_stack() -> None:
    code = f"from tiering.cli import main\ndef fail(): raise ValueError('password={SECRET} \\x1b[2J')\nmain._run = fail\nmain.main()"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "ValueError" in ended.stderr
    assert SECRET not in ended.stderr.replace(code, "")
    assert "\x1b" not in ended.stderr


def test_json_lines_are_objects_for_every_logger(logs: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", logs)
    configure_logging("debug", LogFormat.JSON)
    with round_lines("r1", "sales.orders", 7):
        structlog.get_logger().debug("a\nb", password=f"token={SECRET}", count=3)
        try:
            raise ValueError(f"password={SECRET}")
        except ValueError:
            structlog.get_logger().exception("it failed")
            logging.getLogger("a.library").exception("so did it\nforged")
    first, failed, library = [json.loads(line) for line in logs.getvalue().splitlines()]
    assert (first["event"], first["level"], first["count"]) == ("a\\nb", "debug", 3)
    for line in (first, failed):
        assert (line["round_id"], line["table"], line["tiering_epoch"]) == ("r1", "sales.orders", 7)
    assert (library["event"], library["level"], library["logger"]) == ("so did it", "error", "a.library")
    assert all("ValueError" in line["exception"] for line in (failed, library))
    assert all(datetime.fromisoformat(line["timestamp"]).tzinfo is not None for line in (first, failed, library))
    assert SECRET not in logs.getvalue()
