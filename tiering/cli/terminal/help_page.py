"""The help pages of commands, for `--help`: usage, description, examples, then arguments and options in titled groups.

The group `Options` has the common options and comes first. An option that sets `rich_help_panel` is in the group of that name. Names of
options and commands are never cut and never broken at a hyphen, so that they can be copied and found.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from tiering.access.client_access import CONNECTION
from tiering.cli.terminal.access_options import CONNECTION_SUMMARY

MAX_WIDTH = 110
"""Maximum width of a help page in columns: longer lines are hard to read."""
NAME_WIDTH = 30
"""Columns for a name. The help of a longer name begins on the next line, as in git and argparse."""
EXAMPLE = re.compile(r"^Example: (.+)$", re.MULTILINE)
"""A line of a command's docstring that shows how to call it."""

FIRST_GROUPS = ("Arguments", "Options")
"""Titles of the groups of arguments and of common options, in this order."""
_SUMMARIES: Mapping[str, str] = {CONNECTION: CONNECTION_SUMMARY}
"""Groups that many commands have. A help page shows the names of their options with one text; docs/options.md explains each option."""
_KINDS = {"path": "PATH", "str": "TEXT", "int": "NUMBER", "int range": "NUMBER", "list[str]": "TEXT"}
"""Placeholders for typer's names of types. A list is an option that can be repeated."""
_TYPE = re.compile(r"<([^>]+)>")


def use_help_pages(app: typer.Typer) -> None:
    """Gives the program, its groups and all their commands the help pages of this module."""
    app.info.cls = _Program
    for command in app.registered_commands:
        command.cls = _Command
    for group in app.registered_groups:
        if group.typer_instance is not None:
            group.cls = _Program
            use_help_pages(group.typer_instance)


class _Command(TyperCommand):
    """A command with a help page of this module. Typer keeps the types of `ctx` and `formatter` private."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.format_usage(ctx, formatter)
        _write_page(self, ctx, formatter, _parameter_groups(self, ctx))


class _Program(TyperGroup):
    """A group of commands with a help page of this module."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.format_usage(ctx, formatter)
        _write_page(self, ctx, formatter, {**_parameter_groups(self, ctx), **_command_groups(self)})


def group_of(parameter: Any) -> str:
    """Returns the title of the group in which a page shows an argument or option of typer."""
    return parameter.rich_help_panel or ("Arguments" if parameter.param_type_name == "argument" else "Options")


def _parameter_groups(command: Any, context: Any) -> dict[str, list[tuple[str, str]]]:
    """Returns names and texts by title. The arguments and the common options come first."""
    groups: dict[str, list[tuple[str, str]]] = {title: [] for title in FIRST_GROUPS}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            is_argument = parameter.param_type_name == "argument"
            name = parameter.display_name_raw if is_argument else _TYPE.sub(lambda match: _KINDS.get(match[1], match[1]), record[0])
            groups.setdefault(group_of(parameter), []).append((name, record[1]))
    for title in _SUMMARIES.keys() & groups.keys():
        groups[title] = [(", ".join(name for name, _ in groups[title]), _SUMMARIES[title])]
    return groups


def _command_groups(program: TyperGroup) -> dict[str, list[tuple[str, str]]]:
    groups: dict[str, list[tuple[str, str]]] = {}
    for name, command in program.commands.items():
        if not command.hidden:
            title = getattr(command, "rich_help_panel", None) or "Commands"
            groups.setdefault(title, []).append((name, (command.help or "").split("\n\n", 1)[0]))
    return groups


def _write_page(command: Any, context: Any, formatter: Any, groups: Mapping[str, list[tuple[str, str]]]) -> None:
    examples = EXAMPLE.findall(command.help or "")
    description = EXAMPLE.sub("", command.help or "").strip()
    sections = [(title, list(_definitions(rows, formatter.width))) for title, rows in groups.items() if rows]
    if examples:
        sections.insert(0, ("Example" if len(examples) == 1 else "Examples", [f"  {example}" for example in examples]))
    formatter.write("\n" + "\n\n".join(_wrapped(part, formatter.width, "  ") for part in re.split(r"\n\n+", description)) + "\n")
    for title, lines in sections:
        formatter.write(f"\n{title}:\n" + "\n".join(lines) + "\n")


def _definitions(rows: Iterable[tuple[str, str]], width: int) -> Iterator[str]:
    """Yields the lines of a list of names and texts, in two columns."""
    rows = list(rows)
    column = min(max(len(name) for name, _ in rows), NAME_WIDTH) + 4
    for name, text in rows:
        lines = textwrap.indent(_wrapped(text, max(width - column, 30), ""), " " * column).splitlines()
        if len(name) + 4 > column:
            yield from _wrapped(name, width, "  ").splitlines()
        elif lines:
            lines[0] = f"  {name}".ljust(column) + lines[0].lstrip()
        else:
            lines = [f"  {name}"]
        yield from lines


def _wrapped(text: str, width: int, indent: str) -> str:
    return textwrap.fill(
        " ".join(text.split()),
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
