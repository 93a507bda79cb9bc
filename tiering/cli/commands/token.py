"""`lakeward token create|list|revoke`: manages the tokens of a service that runs with `--auth token`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from tiering.access.tokens import StoredToken, add_token, new_token, read_tokens, revoke_token, write_private
from tiering.cli.terminal.access_options import TokensOption
from tiering.cli.terminal.options import DataOption, FormatOption
from tiering.cli.terminal.output import OutputFormat, print_rows
from tiering.durations import parse_duration_ms
from tiering.files.private_files import check_replaceable

ACCESS_FOLDER = "access"
TOKENS_FILE = "tokens.json"


def register(app: typer.Typer) -> None:
    """Adds the group of commands and its three commands."""
    tokens = typer.Typer(
        no_args_is_help=True,
        help="Create, list and revoke the tokens of a service. A change takes effect with the next call, without a restart."
        "\n\nExample: lakeward token create etl --data ./lakeward-data --out etl.token",
    )
    tokens.command("create")(create)
    tokens.command("list")(show)
    tokens.command("revoke")(revoke)
    app.add_typer(tokens, name="token")


def tokens_path(data: Path, tokens: Path | None) -> Path:
    """Returns the file with the tokens of a service."""
    return (data / ACCESS_FOLDER / TOKENS_FILE if tokens is None else tokens).expanduser()


def create(
    principal: Annotated[
        str, typer.Argument(metavar="PRINCIPAL", help="Principal that the token is for, as grants, events and the audit log name it.")
    ],
    data: DataOption = Path("lakeward-data"),
    tokens: TokensOption = None,
    group: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Group of the principal, for grants. Can be repeated.")] = None,
    expires: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Time until the token expires: '90 d'. Default: it does not expire.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the token into this file, which only its owner can read, instead of printing it."),
    ] = None,
) -> None:
    """Create a token and show it once. The service stores only its hash.

    Example: lakeward token create etl --data ./lakeward-data --expires '90 d' --out etl.token
    """
    now = datetime.now(UTC)
    expires_time = None if expires is None else now + timedelta(milliseconds=parse_duration_ms(expires, "--expires"))
    token, stored = new_token(principal, now, expires_time=expires_time, groups=group or ())
    file = tokens_path(data, tokens)
    check_replaceable(file, "lakeward token create ...")
    if out is not None:  # written first: otherwise a failed write would leave a valid token that no user has
        write_private(out.expanduser(), token + "\n")
    add_token(file, stored)
    print(f"token {stored.token_id} of {principal}: {out}" if out is not None else token)


def show(data: DataOption = Path("lakeward-data"), tokens: TokensOption = None, output: FormatOption = OutputFormat.TABLE) -> None:
    """List the tokens, without their secrets, of which the service stores only hashes.

    Example: lakeward token list --data ./lakeward-data
    """
    print_rows([_row(token) for token in read_tokens(tokens_path(data, tokens))], output)


def revoke(
    token_id: Annotated[str, typer.Argument(metavar="TOKEN_ID", help="Id of the token, from `lakeward token list`.")],
    data: DataOption = Path("lakeward-data"),
    tokens: TokensOption = None,
) -> None:
    """Revoke a token. Running calls continue to their end.

    Example: lakeward token revoke 4f2a9c01b7d3 --data ./lakeward-data
    """
    file = tokens_path(data, tokens)
    check_replaceable(file, f"lakeward token revoke {token_id} ...")
    revoked = revoke_token(file, token_id, datetime.now(UTC))
    print(f"token {revoked.token_id} of {revoked.principal} is revoked")


def _row(token: StoredToken) -> dict[str, object]:
    return {
        "token_id": token.token_id,
        "principal": token.principal,
        "groups": ", ".join(token.groups),
        "created_time": token.created_time,
        "expires_time": token.expires_time,
        "revoked_time": token.revoked_time,
    }
