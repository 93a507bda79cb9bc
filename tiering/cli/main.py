"""The `lakeward` command.

Each error is one message on standard error: what happened, where, and what to do. `exit_status` defines the exit statuses.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from inspect import signature
from types import ModuleType

import typer
from typer.models import CommandInfo, TyperInfo

from tiering.child_process import keep_current_folder_out
from tiering.cli.commands import (
    add_column,
    alerts,
    compact,
    console,
    coordinator,
    dashboard,
    demo,
    doctor,
    down,
    drop,
    expire,
    explain,
    export_status,
    fetch_jars,
    health,
    ingest,
    lake_conf,
    plain_calls,
    prove,
    report,
    set_freshness,
    set_option,
    spark_conf,
    spark_views,
    sql,
    state,
    status,
    sweep,
    tables,
    tier,
    tier_database,
    tierer,
    token,
    up,
    validate,
    wait,
)
from tiering.cli.terminal import completion
from tiering.cli.terminal.access_options import add_client_options
from tiering.cli.terminal.consoles import discard_output, printable, take_any_text
from tiering.cli.terminal.exit_status import ExitStatus, exit_status
from tiering.cli.terminal.help_page import MAX_WIDTH, use_help_pages
from tiering.cli.terminal.lake_options import OTHER_OPTIONS
from tiering.cli.terminal.logs import show_errors_clean
from tiering.errors import BadRequest, LakewardError, SetupError, StatementFailed
from tiering.extras import extra_of, install_hint

app = typer.Typer(
    name=completion.PROGRAM,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": MAX_WIDTH},
)
completion.register(app)
COMMANDS: Mapping[str, tuple[ModuleType, ...]] = {
    "Run it": (up, down, coordinator, tierer, doctor),
    "Load and look": (ingest, tables, set_option, set_freshness, add_column, drop, status, sql, console),
    "Steer and prove": (
        tier,
        tier_database,
        wait,
        explain,
        plain_calls,
        sweep,
        health,
        compact,
        expire,
        export_status,
        prove,
        validate,
        report,
    ),
    "Keep the service": (token, state),
    "Connect others": (spark_conf, spark_views, lake_conf, dashboard, alerts, fetch_jars, demo),
}
"""The modules of the commands by section, in the order of `lakeward --help`. docs/cli.md has the same sections."""


def _register(module: ModuleType) -> None:
    """Adds the command that the module is named after, or the commands that its own `register` adds."""
    if hasattr(module, "register"):
        module.register(app)
        return
    name = module.__name__.rpartition(".")[2]
    command = getattr(module, name)
    # A command with the parameter `context` reads options there that typer does not know.
    app.command(name.replace("_", "-"), context_settings=OTHER_OPTIONS if "context" in signature(command).parameters else None)(command)


for section, modules in COMMANDS.items():
    for module in modules:
        _register(module)
    registered: list[CommandInfo | TyperInfo] = [*app.registered_commands, *app.registered_groups]
    for info in registered:
        info.rich_help_panel = info.rich_help_panel or section
add_client_options(app)
use_help_pages(app)


def main() -> None:
    """Runs the command and ends the process with its exit status."""
    keep_current_folder_out()
    take_any_text()
    show_errors_clean()
    try:
        status = _run()
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
        status = ExitStatus.READER_GONE
    sys.exit(status)


def _run() -> int | str | None:
    """Runs the command and returns its exit status for `sys.exit`. Raises BrokenPipeError if the reader of the output has closed it."""
    try:
        app(prog_name=completion.PROGRAM)
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):
            # Typer turns a broken pipe into exit status 1, which means any failure.
            raise ended.__context__ from None
        return ended.code
    except LakewardError as error:
        _print_error(error)
        return exit_status(error)
    except ModuleNotFoundError as error:
        if (extra := extra_of(error.name)) is None:
            raise
        _print_error(SetupError(f"this command needs the Python package {error.name}, which is not installed", hint=install_hint(extra)))
        return ExitStatus.FAILED
    return ExitStatus.DONE


def _print_error(error: LakewardError) -> None:
    where = "" if isinstance(error, SetupError | BadRequest | StatementFailed) else f" [{error.error_class}]"
    print(f"{completion.PROGRAM}: {printable(error.message)}{where}", file=sys.stderr)
    if error.hint:
        print(f"  {printable(error.hint)}", file=sys.stderr)


if __name__ == "__main__":
    main()
