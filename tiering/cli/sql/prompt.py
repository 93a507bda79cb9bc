"""The prompt of `lakeward sql`, with statements over several lines, a history, and completion of names."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tiering.cli.sql.session import SqlSession
from tiering.cli.sql.statements import Script, split
from tiering.cli.terminal.consoles import printable
from tiering.errors import InvalidData, StatementFailed

FIRST, NEXT = "fluss> ", "    -> "
LEAVE = {"exit", "quit", "\\q"}
HELP = {"help", "\\h", "?"}
HELP_TEXT = """A statement ends with ';'. Try:
  SHOW TABLES IN sys;
  SELECT table_name, status, lag_ms, last_error FROM sys.lake_tiering_status;
  CALL sys.help();
Ctrl-C discards the typed text, or stops waiting for a statement. Ctrl-D or 'exit' leaves."""
HISTORY_LINES = 2_000

ReadLine = Callable[[str], str]


def converse(session: SqlSession, read_line: ReadLine = input) -> None:
    """Reads and runs statements until Ctrl-D or `exit`. An error of a statement is printed, and the prompt continues."""
    typed = ""
    while True:
        try:
            line = read_line(NEXT if typed else FIRST)
            if not typed and line.strip().rstrip(";").lower() in LEAVE:
                return
            if not typed and line.strip().rstrip(";").lower() in HELP:
                print(HELP_TEXT, file=sys.stderr)
                continue
            typed = run_finished(session, f"{typed}{line}\n")
        except EOFError:
            print(file=sys.stderr)
            return
        except KeyboardInterrupt:
            print("\ninterrupted; a CALL that was sent continues in the service" if not typed else "", file=sys.stderr)
            typed = ""
        except StatementFailed as error:
            typed = ""
            print_error(error)


def run_finished(session: SqlSession, typed: str) -> str:
    """Runs the statements that end with `;`, and returns the rest. Raises StatementFailed, which discards the rest."""
    script = _script(typed)
    if script is None:
        return typed
    for statement in script.statements:
        session.run(statement.text)
    if script.remaining is None:
        return ""
    return f"{script.remaining.text}\n"


def print_error(error: StatementFailed) -> None:
    """Prints an error in the format of all commands."""
    print(printable(error.message), file=sys.stderr)
    if error.hint:
        print(f"  {printable(error.hint)}", file=sys.stderr)


def _script(typed: str) -> Script | None:
    """Returns the split text, or None if a quote or a comment is still open."""
    try:
        return split(typed)
    except InvalidData:
        return None


@contextmanager
def line_editing(names: Sequence[str]) -> Iterator[None]:
    """Enables arrow keys, a history over sessions, and completion of `names` by Tab, if Python has readline."""
    try:
        import readline
    except ImportError:
        yield
        return
    history = history_file()
    if history.exists():
        readline.read_history_file(history)
    readline.set_history_length(HISTORY_LINES)
    readline.set_completer_delims(" \t\n()=,;'`")
    readline.set_completer(lambda text, index: candidate(names, text, index))
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        try:
            history.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            readline.write_history_file(history)
        except OSError as error:
            print(f"could not write the history: {error}", file=sys.stderr)


def candidate(names: Sequence[str], text: str, index: int) -> str | None:
    """Returns the name number `index` that begins with `text`, ignoring case, or None after the last one."""
    matching = [name for name in names if name.lower().startswith(text.lower())]
    return matching[index] if index < len(matching) else None


def history_file() -> Path:
    """Returns the path of the history (XDG Base Directory Specification, `XDG_STATE_HOME`)."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "lakeward" / "sql_history"
