"""The two places that commands write to: rows to standard output, everything else to standard error.

Colours only on a terminal, and not with NO_COLOR (https://no-color.org). Text that the terminal's encoding cannot show is
written as escapes; a reader that goes away raises BrokenPipeError.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from rich.console import Console

from tiering.cli.terminal.exit_status import ExitStatus
from tiering.redaction.visible_text import visible


class PipeConsole(Console):
    """A console that leaves a broken pipe to the caller; rich would end the process with status 1."""

    def on_broken_pipe(self) -> None:
        """Raises BrokenPipeError."""
        raise BrokenPipeError


def output_console(width: int | None = None) -> Console:
    """Standard output. Lines are never wrapped on the way to a file or a pipe."""
    return PipeConsole(soft_wrap=True, width=width, highlight=False)


def message_console() -> Console:
    """Standard error: progress, errors, prompts."""
    return PipeConsole(stderr=True, highlight=False)


def end_orderly_on_sigterm() -> None:
    """For whoever draws on a terminal: SIGTERM ends the command as Ctrl-C does, so that the cursor comes back."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(ExitStatus.TERMINATED))


_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def orderly_end() -> Iterator[ExitStack]:
    """What is entered into the stack ends with the block: after Ctrl-C, SIGTERM and a terminal that was closed, too.

    While it ends, more of these signals count for nothing. One that was ignored before, as by nohup, still is. In the main thread alone.
    """
    before = {number: signal.getsignal(number) for number in _ENDING}
    try:
        with ExitStack() as started:
            for number, handler in before.items():
                if handler is not signal.SIG_IGN:
                    signal.signal(number, _end_block)
            try:
                yield started
            finally:
                _ignore_endings()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_block(number: int, _frame: object) -> None:
    _ignore_endings()
    sys.exit(ExitStatus.INTERRUPTED if number == signal.SIGINT else ExitStatus.TERMINATED)


def _ignore_endings() -> None:
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)


def printable(text: str) -> str:
    """Text from outside for a terminal: what could steer it, or hide, shows as `\\x1b`."""
    return visible(text)


def warn(text: str | None) -> None:
    """One line about something that was done all the same; nothing for None."""
    if text is not None:
        print(f"lakeward: warning: {printable(text)}", file=sys.stderr)


def take_any_text() -> None:
    """Standard output and error write any text, whatever their encoding."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def discard_output() -> None:
    """What is still unwritten goes nowhere: the reader has gone, and Python would complain at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.__stdout__.fileno() if sys.__stdout__ is not None else 1)
