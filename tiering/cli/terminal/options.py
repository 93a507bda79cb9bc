"""Options that several commands share, and how `NAME=VALUE` options are read."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Annotated

import typer

from tiering.cli.terminal.completion import table_names
from tiering.cli.terminal.output import OutputFormat
from tiering.errors import InvalidArgument
from tiering.wire.channel import DEFAULT_PORT

DEFAULT_URI = f"127.0.0.1:{DEFAULT_PORT}"

_NAME_LIMIT = 200
"""Of a property. YAML allows 1024 for what `lake-conf` prints (1.2, section 7.4.2)."""
_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode's categories of what nobody sees: control, format (bidi) and surrogate characters, ends of lines and paragraphs."""

DEFAULT_SLOTS = 4
"""Tables of a tierer at a time: a CALL need not wait for a long round of another table."""

UriOption = Annotated[
    str, typer.Option("--uri", envvar="LAKEWARD_URI", help="The service: host:port; of IPv6 [::1]:port.", show_default=True)
]
FormatOption = Annotated[OutputFormat, typer.Option("--format", help="For people, or for programs: everything, and no colours.")]
TableArgument = Annotated[str, typer.Argument(help="db.table", autocompletion=table_names)]
AnyTableArgument = Annotated[str | None, typer.Argument(help="Only this table: db.table.", autocompletion=table_names, show_default=False)]
LogLevelOption = Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")]


def read_pairs(pairs: Iterable[str], option: str) -> dict[str, str]:
    """`NAME=VALUE` options as a mapping; raises InvalidArgument naming the option.

    Blanks around a name or a value are not part of it.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise InvalidArgument(f"{option} {pair!r} is not of the form NAME=VALUE")
        check_property(option, name.strip(" "), value.strip(" "))
        found[name.strip(" ")] = value.strip(" ")
    return found


def check_property(what: str, name: str, value: str) -> None:
    """Raises InvalidArgument for a name with blanks or control characters, a value with control characters or line ends.

    Properties are printed as files of one line each (`spark-conf`, `lake-conf`): a line end in one would begin another.
    """
    if not 0 < len(name) <= _NAME_LIMIT or any(character.isspace() or not character.isprintable() for character in name):
        raise InvalidArgument(f"{what} {name!r}: a name has no blanks, no control characters, and at most {_NAME_LIMIT} characters")
    if any(unicodedata.category(character) in _UNSEEN for character in value):
        raise InvalidArgument(f"{what} {name!r} has a value with a control character or a line end", hint="Leave it out.")
