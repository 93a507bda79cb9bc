"""Shell completion: `--install-completion SHELL` and `--show-completion SHELL`, and the names of tables.

Typer's own options guess the shell from the parent process, which fails in scripts and containers; here it is named.
"""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import completion_init, get_completion_script, install  # type: ignore[attr-defined] # of typer itself, no `__all__`

from tiering.cli.system_catalog import SystemCatalog
from tiering.errors import LakewardError
from tiering.wire.channel import DEFAULT_PORT

PROGRAM = "lakeward"
COMPLETE_VARIABLE = "_LAKEWARD_COMPLETE"
PATIENCE_SECONDS = 1.0
"""Whoever presses Tab does not wait longer for a service."""


class Shell(StrEnum):
    """What typer can complete in."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POWERSHELL = "powershell"
    PWSH = "pwsh"


def register(app: typer.Typer) -> None:
    """Adds the options to the program itself."""
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
    show_completion: Annotated[Shell | None, typer.Option(callback=_show, is_eager=True, help="Print the completion of a shell.")] = None,
    install_completion: Annotated[
        Shell | None, typer.Option(callback=_install, is_eager=True, help="Install the completion of a shell for you.")
    ] = None,
) -> None:
    """Tiers streaming tables into a data lake with Spark, exactly once, and shows it in SQL."""


def table_names(context: typer.Context, incomplete: str) -> list[str]:
    """Names `db.table` that begin so; none if no service answers soon."""
    uri = context.params.get("uri") or os.environ.get("LAKEWARD_URI") or f"127.0.0.1:{DEFAULT_PORT}"
    try:
        with SystemCatalog(uri, PATIENCE_SECONDS) as catalog:
            rows = catalog.read("tables", ["database_name", "table_name"])
    except LakewardError:
        return []
    names = (f"{row['database_name']}.{row['table_name']}" for row in rows)
    return [name for name in names if name.startswith(incomplete)]
