"""Shell completion: `--install-completion SHELL`, `--show-completion SHELL`, and the completion of table names.

Typer's own options guess the shell from the parent process, which fails in scripts and containers. Here the user names it.
"""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import completion_init, get_completion_script, install  # type: ignore[attr-defined] # typer has no `__all__`

from sys_tables.catalog_client import SystemCatalog
from tiering.errors import LakewardError
from tiering.wire.channel import DEFAULT_PORT

PROGRAM = "lakeward"
COMPLETE_VARIABLE = "_LAKEWARD_COMPLETE"
PATIENCE_SECONDS = 1.0
"""Longest wait for a service after a press of Tab."""


class Shell(StrEnum):
    """Shells that typer can complete in."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POWERSHELL = "powershell"
    PWSH = "pwsh"


def register(app: typer.Typer) -> None:
    """Adds the options of completion to the program."""
    completion_init()
    app.callback()(_program)


def _show(shell: Shell | None) -> None:
    if shell is not None:
        print(get_completion_script(prog_name=PROGRAM, complete_var=COMPLETE_VARIABLE, shell=shell.value))
        raise typer.Exit


def _install(shell: Shell | None) -> None:
    if shell is not None:
        _, path = install(shell=shell.value, prog_name=PROGRAM, complete_var=COMPLETE_VARIABLE)
        print(f"completion for {shell} is in {path}; it works in the next shell that you open")
        raise typer.Exit


def _program(
    show_completion: Annotated[
        Shell | None,
        typer.Option(
            callback=_show, is_eager=True, metavar="SHELL", help="Print the completion script of a shell: bash, zsh, fish or powershell."
        ),
    ] = None,
    install_completion: Annotated[
        Shell | None,
        typer.Option(callback=_install, is_eager=True, metavar="SHELL", help="Install the completion script of a shell for this user."),
    ] = None,
) -> None:
    """Tiers streaming tables into a data lake with Spark, exactly once, and shows it in SQL."""


def table_names(context: typer.Context, incomplete: str) -> list[str]:
    """Returns the names `database.table` that begin with the text, or none if no service answers in time."""
    uri = context.params.get("uri") or os.environ.get("LAKEWARD_URI") or f"127.0.0.1:{DEFAULT_PORT}"
    try:
        with SystemCatalog(uri, PATIENCE_SECONDS) as catalog:
            rows = catalog.read("tables", ["database_name", "table_name"])
    except LakewardError:
        return []
    names = (f"{row['database_name']}.{row['table_name']}" for row in rows)
    return [name for name in names if name.startswith(incomplete)]
