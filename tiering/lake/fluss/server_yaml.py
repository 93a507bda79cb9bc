"""Reads the options of a Fluss server: its `server.yaml` with one `key: value` a line (Fluss documentation, "Configuration")."""

from __future__ import annotations

from pathlib import Path

from tiering.errors import SetupError

LONGEST_BYTES = 1 << 20
_QUOTES = "\"'"


def read_server_yaml(file: Path) -> dict[str, str]:
    """Returns the options in `file`. Raises SetupError, with the line's number, for a line that is not `key: value`, and for an unreadable
    file."""
    try:
        with file.expanduser().open("rb") as source:
            content = source.read(LONGEST_BYTES + 1)
        text = content.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SetupError(f"{file} cannot be read: {reason}", hint="Name Fluss's server.yaml with --fluss-conf.") from error
    if len(content) > LONGEST_BYTES:
        raise SetupError(f"{file} has more than {LONGEST_BYTES} bytes", hint="Name Fluss's server.yaml with --fluss-conf.")
    return parse_server_yaml(text, str(file))


def parse_server_yaml(text: str, origin: str) -> dict[str, str]:
    """Returns the options in `text`. `origin` names the text in errors. If an option is repeated, its last value counts."""
    options: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = _without_comment(line)
        if not line or line == "---":
            continue
        key, colon, value = line.partition(":")
        if not colon or not key.strip() or (value and not value[0].isspace()):
            # The message does not show the line, because it may hold a password.
            raise SetupError(f"line {number} of {origin} is no `key: value`", hint="Write each option on one line, as Fluss reads them.")
        options[_unquoted(key.strip())] = _unquoted(value.strip())
    return options


def _without_comment(line: str) -> str:
    """Returns the line without its comment. A `#` begins a comment at the start of a line and after a blank (YAML 1.2, 6.6)."""
    stripped = line.strip()
    if stripped.startswith("#"):
        return ""
    for mark in (" #", "\t#"):
        stripped = stripped.partition(mark)[0].rstrip()
    return stripped


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in _QUOTES else text
