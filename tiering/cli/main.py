"""The `lakeward` command.

Exit status: 0 done; 1 it failed; 2 wrong usage or input; 3 no service answers. Every error is one message on standard
error: what, where, what to do.
"""

from __future__ import annotations

import sys

import typer

from tiering.cli import conf_commands, demo_command, load_commands, query_commands, serve_commands, sweep_commands
from tiering.errors import BadRequest, LakewardError, ServiceUnreachable, SetupError
from tiering.redact import redact

app = typer.Typer(
    name="lakeward",
    help="Tiers streaming tables into a data lake with Spark, exactly once, and shows it in SQL.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
serve_commands.register(app)
load_commands.register(app)
query_commands.register(app)
sweep_commands.register(app)
conf_commands.register(app)
demo_command.register(app)


def exit_status(error: LakewardError) -> int:
    """Which exit status an error has."""
    match error:
        case BadRequest():
            return 2
        case ServiceUnreachable():
            return 3
        case _:
            return 1


def main() -> None:
    """Runs the command; turns an error of our tree into one message."""
    try:
        app()
    except LakewardError as error:
        where = "" if isinstance(error, SetupError | BadRequest) else f" [{error.error_class}]"
        print(f"lakeward: {redact(error.message)}{where}", file=sys.stderr)
        if error.hint:
            print(f"  {redact(error.hint)}", file=sys.stderr)
        sys.exit(exit_status(error))


if __name__ == "__main__":
    main()
