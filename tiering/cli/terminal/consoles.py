"""The consoles of commands: rows go to standard output, everything else to standard error.

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
    """A console that raises BrokenPipeError. Rich would end the process with status 1."""

    def on_broken_pipe(self) -> None:
        """Raises BrokenPipeError."""
        raise BrokenPipeError


def output_console(width: int | None = None) -> Console:
    """Returns a console for standard output, which never wraps lines in a file or a pipe."""
    return PipeConsole(soft_wrap=True, width=width, highlight=False)


def message_console() -> Console:
    """Returns a console for standard error, for progress, errors and prompts."""
    return PipeConsole(stderr=True, highlight=False)


def end_orderly_on_sigterm() -> None:
    """Makes SIGTERM end the command like Ctrl-C, so that a command that draws on a terminal restores the cursor."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(ExitStatus.TERMINATED))


_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def orderly_end() -> Iterator[ExitStack]:
    """Yields a stack that is closed at the end of the block, also after Ctrl-C, SIGTERM, or a closed terminal (SIGHUP).

    Further signals are ignored meanwhile. A signal that was ignored before, for example by nohup, stays ignored. Main thread only.
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
    """Returns untrusted text for a terminal. Control and invisible characters are shown as escapes such as `\\x1b`."""
    return visible(text)


def warn(text: str | None) -> None:
    """Prints a warning about something that was done. None prints nothing."""
    if text is not None:
        print(f"lakeward: warning: {printable(text)}", file=sys.stderr)


def take_any_text() -> None:
    """Lets standard output and standard error write any text in any encoding, with escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def discard_output() -> None:
    """Discards unwritten output after the reader closed the pipe. Python would report an error at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.__stdout__.fileno() if sys.__stdout__ is not None else 1)
