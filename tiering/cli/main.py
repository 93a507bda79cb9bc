"""The `lakeward` command.

Every error is one message on standard error: what, where, what to do. Exit statuses are those of `exit_status`.
"""

from __future__ import annotations

import sys

import typer

from tiering.child_process import keep_current_folder_out
from tiering.cli.commands import (
    add_column,
    alerts,
    cancel,
    compact,
    coordinator,
    dashboard,
    demo,
    doctor,
    down,
    drop,
    expire,
    explain,
    export_status,
    fence,
    fetch_jars,
    health,
    ingest,
    lake_conf,
    pause,
    reconcile,
    resume,
    retry,
    set_freshness,
    set_option,
    skip_record,
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
from tiering.cli.terminal.logs import show_errors_clean
from tiering.errors import BadRequest, LakewardError, SetupError, StatementFailed
from tiering.extras import extra_of, install_hint

app = typer.Typer(
    name=completion.PROGRAM,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
completion.register(app)
for command in (
    up,
    down,
    coordinator,
    tierer,
    ingest,
    tables,
    set_option,
    set_freshness,
    add_column,
    drop,
    sql,
    status,
    export_status,
    health,
    compact,
    expire,
    tier,
    tier_database,
    wait,
    explain,
    pause,
    resume,
    cancel,
    retry,
    reconcile,
    skip_record,
    sweep,
    fence,
    validate,
    spark_conf,
    lake_conf,
    spark_views,
    dashboard,
    alerts,
    doctor,
    fetch_jars,
    demo,
    state,
    token,
):
    command.register(app)
add_client_options(app)


def main() -> None:
    """Runs the command; ends the process with its status."""
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
    """The exit status, as `sys.exit` takes it. Raises BrokenPipeError when the reader of the output has gone."""
    try:
        app(prog_name=completion.PROGRAM)
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):
            # Typer's way to end then; it says 1, as for any failure.
            raise ended.__context__ from None
        return ended.code
    except LakewardError as error:
        _tell(error)
        return exit_status(error)
    except ModuleNotFoundError as error:
        if (extra := extra_of(error.name)) is None:
            raise
        _tell(SetupError(f"the Python package {error.name} is not installed, which this needs", hint=install_hint(extra)))
        return ExitStatus.FAILED
    return ExitStatus.DONE


def _tell(error: LakewardError) -> None:
    where = "" if isinstance(error, SetupError | BadRequest | StatementFailed) else f" [{error.error_class}]"
    print(f"{completion.PROGRAM}: {printable(error.message)}{where}", file=sys.stderr)
    if error.hint:
        print(f"  {printable(error.hint)}", file=sys.stderr)


if __name__ == "__main__":
    main()
