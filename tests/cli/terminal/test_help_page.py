"""Help pages: the common options first, the others in groups, one entry for the options of the connection, and no name cut."""

from __future__ import annotations

import re
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from tiering.access.client_access import CONNECTION
from tiering.cli.main import COMMANDS, app
from tiering.cli.terminal.help_page import group_of

PROGRAM: Any = typer.main.get_command(app)
COMMON_OPTIONS_OF_UP = 10
NARROW, WIDE = 60, 300


def page(name: str, columns: int = 100) -> str:
    """The page of a command, on a terminal of this width."""
    command = PROGRAM.commands[name]
    return f"{command.get_help(typer.Context(command, info_name=f'lakeward {name}', terminal_width=columns))}\n"


def groups(text: str) -> dict[str, str]:
    """The text of each group by its title."""
    parts = re.split(r"^(\S.*):$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def names_in(group: str) -> list[str]:
    """Options of a group, without `--help`."""
    return re.findall(r"^  (--(?!help\b)[\w-]+)", group, re.MULTILINE)


def test_up_shows_the_ten_common_options_first_and_the_others_in_groups() -> None:
    shown = groups(page("up"))
    options = [parameter for parameter in PROGRAM.commands["up"].params if not getattr(parameter, "hidden", False)]
    assert len(names_in(shown["Options"])) == COMMON_OPTIONS_OF_UP
    assert {"--data", "--port", "--fluss", "--detach"} <= set(names_in(shown["Options"]))
    assert list(shown)[:2] == ["Examples", "Options"]
    assert sorted(name for group in shown.values() for name in names_in(group)) == sorted(option.opts[0] for option in options)


@pytest.mark.parametrize("columns", [NARROW, WIDE])
def test_no_name_is_cut_however_wide_the_terminal_is(columns: int) -> None:
    for name, command in PROGRAM.commands.items():
        text = page(name, columns=columns)
        for parameter in command.params:
            if not getattr(parameter, "hidden", False) and parameter.opts[0].startswith("-"):
                assert {option for option in (*parameter.opts, *parameter.secondary_opts) if not re.search(rf"{option}\b", text)} == set()
        assert "…" not in text


def test_the_options_of_the_connection_are_one_entry_with_a_link() -> None:
    shown = groups(page("tables"))[CONNECTION]
    names = [parameter.opts[0] for parameter in PROGRAM.commands["tables"].params if group_of(parameter) == CONNECTION]
    assert names == ["--token-file", "--tls-ca", "--tls-cert", "--tls-key"]
    assert all(name in shown for name in names)
    assert "docs/security.md" in shown
    assert len(names_in(shown)) == 1


def test_the_program_shows_its_page_with_every_command_in_its_section() -> None:
    invoked = CliRunner().invoke(app, ["--help"])
    assert invoked.exit_code == 0, invoked.output
    shown = groups(invoked.output)
    in_section = {section: re.findall(r"^  (\w[\w-]*)  ", shown[section], re.MULTILINE) for section in COMMANDS}
    assert all(len(in_section[section]) >= len(modules) for section, modules in COMMANDS.items())  # each module has a command or more
    assert sorted(name for names in in_section.values() for name in names) == sorted(PROGRAM.commands)


def test_examples_are_on_lines_of_their_own_and_can_be_copied() -> None:
    assert "\n  lakeward up --data ./lakeward-data --detach\n" in page("up", columns=NARROW)
    assert "\nExamples:\n  lakeward wait sales.orders --timeout-ms 60000\n" in page("wait", columns=WIDE)
