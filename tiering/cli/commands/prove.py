"""`lakeward prove`: writes a signed proof that a lake table equals its log, as an archive that can be handed over."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from tiering.cli.terminal.consoles import message_console, printable
from tiering.cli.terminal.new_file import ForceOption, write_new_file
from tiering.cli.terminal.options import DEFAULT_URI, FormatOption, TableArgument, UriOption
from tiering.cli.terminal.output import OutputFormat, print_rows
from tiering.errors import InvalidAnswer
from tiering.model.names import parse_table_path
from tiering.procedures.prove_table import counts_text
from tiering.validate.archive import verify

COLUMNS = ("scope", "verdict", "rows_in_log", "rows_in_lake", "checksum", "details")


def prove(
    table: TableArgument,
    out: Annotated[Path, typer.Option("--out", metavar="FILE.zip", help="File to write.", show_default=False)],
    snapshot: Annotated[
        int | None, typer.Option(metavar="ID", help="Id of the lake snapshot. Default: the newest snapshot.", show_default=False)
    ] = None,
    spark: Annotated[
        bool | None,
        typer.Option(
            "--spark/--no-spark",
            help="Whether Spark counts the rows, too. Default: if the lake files have at most 1 GiB.",
            show_default=False,
        ),
    ] = None,
    uri: UriOption = DEFAULT_URI,
    force: ForceOption = False,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """Write a signed proof that a lake table equals its log. The exit status is 1 if it does not.

    The archive has the program verify.py, which checks everything again with Python and DuckDB alone.

    Example: lakeward prove sales.orders --out orders-proof.zip

    Example: python verify.py orders-proof.zip
    """
    path = parse_table_path(table)
    documents: list[verify.Document] = []

    def write(sink: IO[bytes]) -> None:
        archive = _archive(uri, {"table": str(path), "snapshot_id": snapshot, **({} if spark is None else {"spark": spark})})
        documents.append(_document(archive))
        sink.write(archive)

    write_new_file(out, write, force=force)
    [document] = documents
    print_rows(_rows(document), output, COLUMNS, {"verdict": _colour})
    for line in _messages(document, out):
        message_console().print(printable(line), soft_wrap=True)
    if document["verdict"] == verify.DIFFERS:
        raise typer.Exit(1)


def _archive(uri: str, arguments: Mapping[str, Any]) -> bytes:
    from sys_tables.catalog_client import SystemCatalog

    with SystemCatalog(uri) as catalog, message_console().status(f"proving {arguments['table']} ...") as status:
        rows = catalog.call("prove_table", on_progress=lambda line: status.update(printable(line)), **arguments)
    try:
        [row] = rows
        return base64.b64decode(row["archive"], validate=True)
    except (ValueError, KeyError, TypeError, binascii.Error) as error:
        raise InvalidAnswer("the service's answer to prove_table cannot be read") from error


def _document(archive: bytes) -> verify.Document:
    """Returns the proof in an archive. Raises InvalidAnswer for an archive that verify.py would refuse."""
    try:
        document, _ = verify.check_members(verify.members_of(archive))
    except verify.ProofError as error:
        raise InvalidAnswer(f"the service's proof cannot be used: {error}") from error
    return document


def _rows(document: verify.Document) -> list[dict[str, Any]]:
    """Returns a row per bucket, or one of the whole table if nothing could be compared."""
    scopes = document["scopes"] or [
        {"scope": "table", "verdict": document["verdict"], "log": None, "lake": {"rows": None, "checksum": None}}
    ]
    return [
        {
            "scope": scope["scope"],
            "verdict": scope["verdict"],
            "rows_in_log": None if scope["log"] is None else scope["log"]["rows"],
            "rows_in_lake": scope["lake"]["rows"],
            "checksum": scope["lake"]["checksum"],
            "details": verify.reason_of({**document, "scopes": [scope], "verdict": scope["verdict"]}),
        }
        for scope in scopes
    ]


def _messages(document: verify.Document, out: Path) -> Iterator[str]:
    """Yields what readers counted, and the verdict on the table."""
    if counts := counts_text(reader for reader in document["readers"] if reader["rows"] is not None):
        yield f"rows counted by {counts}"
    for reader in document["readers"]:
        if reader["rows"] is None:
            yield f"not counted by {reader['reader']}: {reader['note']}"
    reason = verify.reason_of(document)
    table, because = document["table"]["path"], "" if reason is None else f" ({reason})"
    yield f"{out}: {table} is {document['verdict']}{because}. To check it again: python verify.py {out}"


def _colour(verdict: Any) -> str:
    return {verify.EQUAL: "green", verify.DIFFERS: "bold red"}.get(verdict, "yellow")
