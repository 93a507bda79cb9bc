"""`lakeward ingest`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from tiering.cli.terminal.cluster_options import FlussServersOption
from tiering.cli.terminal.consoles import end_orderly_on_sigterm, message_console, printable, warn
from tiering.cli.terminal.options import DEFAULT_URI, FormatOption, UriOption, read_pairs
from tiering.cli.terminal.output import OutputFormat, print_rows
from tiering.counts import counted
from tiering.durations import freshness_warning, parse_duration_ms
from tiering.ingest.formats import FileFormat
from tiering.model.names import parse_table_path
from tiering.model.tables import TablePath

if TYPE_CHECKING:
    from tiering.ingest.load import IngestResult

SHOWN_BUCKETS = 16
"""Of a table with many partitions nobody reads more."""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("ingest")(ingest)


def ingest(
    table: Annotated[str, typer.Argument(help="db.table; made on demand.")],
    file: Annotated[Path, typer.Argument(help="A parquet, csv or ndjson file.")],
    uri: UriOption = DEFAULT_URI,
    fluss: FlussServersOption = None,
    file_format: Annotated[FileFormat | None, typer.Option(help="Default: by the file's ending.")] = None,
    buckets: Annotated[int | None, typer.Option(min=1, help="Buckets of a new table.")] = None,
    bucket_key: Annotated[list[str] | None, typer.Option(help="Column that chooses the bucket; repeat it. Default: round robin.")] = None,
    primary_key: Annotated[str | None, typer.Option(help="Key columns of a new primary-key table: a,b. Rows are upserted.")] = None,
    deletes: Annotated[bool, typer.Option("--deletes", help="The file has keys, whose rows are deleted.")] = False,
    partition_by: Annotated[str | None, typer.Option(help="Columns that make the partitions of a new table: a,b.")] = None,
    freshness: Annotated[str | None, typer.Option(help="How old the lake copy may be: '30 s', '5 min'.")] = None,
    lake: Annotated[bool | None, typer.Option(help="Tier the table into the lake (a new table is, by default).")] = None,
    create: Annotated[bool, typer.Option(help="Make a missing database and table.")] = True,
    add_columns: Annotated[bool, typer.Option("--add-columns", help="Add the file's columns that the table lacks.")] = False,
    option: Annotated[
        list[str] | None, typer.Option("--option", help="NAME=VALUE for a new table: table.log.ttl='7 d'. Repeatable.")
    ] = None,
    writer_id: Annotated[str | None, typer.Option(help="Of an interrupted run: repeating it doubles nothing.")] = None,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """Load a file into a table of the service's cluster, or of a Fluss cluster. Nothing is written unless the whole file can be read.

    Fluss remembers no writer: there --writer-id has no effect, and an interrupted run that is repeated appends its rows again.

    Example: lakeward ingest sales.orders orders.csv --buckets 4 --freshness '30 s'

    Example: lakeward ingest sales.customers customers.csv --primary-key id
    """
    # Here and not above: the other commands, and their help, do without what it needs.
    from tiering.cli.service_cluster import writable_cluster
    from tiering.ingest.load import IngestOptions, ingest_file

    path = parse_table_path(table)
    keys = tuple(bucket_key) if bucket_key else None
    options = IngestOptions(
        file_format,
        buckets,
        keys,
        freshness,
        lake,
        create,
        writer_id,
        _names(partition_by),
        add_columns,
        _names(primary_key),
        deletes,
        read_pairs(option or (), "--option"),
    )
    with writable_cluster(uri, fluss) as cluster, _bar(path, file) as progress:
        result = ingest_file(cluster, path, file, options, progress)
    if freshness is not None:
        warn(freshness_warning(parse_duration_ms(freshness)))
    if output is OutputFormat.TABLE:
        print(_summary(path, result))
    else:
        print_rows([_row(path, result)], output)


def _names(columns: str | None) -> tuple[str, ...] | None:
    return None if columns is None else tuple(name.strip() for name in columns.split(","))


@contextmanager
def _bar(path: TablePath, file: Path) -> Iterator[Callable[[int, int], None] | None]:
    """Takes rows done and rows in all: a bar on a terminal, gone at the end; nothing elsewhere."""
    console = message_console()
    if not console.is_terminal:
        yield None
        return
    end_orderly_on_sigterm()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(f"reading {printable(file.name)}", total=None)
        yield lambda done, total: bar.update(task, description=f"writing to {path}", completed=done, total=total)


def _summary(path: TablePath, result: IngestResult) -> str:
    creation = "made, " if result.created else ""
    shown = [f"{bucket}: [{start}, {stop})" for bucket, (start, stop) in list(result.ranges.items())[:SHOWN_BUCKETS]]
    more = len(result.ranges) - len(shown)
    partitions = {bucket.partition_id for bucket in result.ranges} - {None}
    into = f" to {counted(len(partitions), 'partition')}" if partitions else ""
    ranges = ", ".join(shown) + (f", and {more} more" if more else "")
    return f"{path}: {creation}{_done(result)}{into}; offsets by bucket: {ranges or 'none'}"


def _done(result: IngestResult) -> str:
    if result.deletes:
        return f"{result.records} of {result.rows} keys deleted"
    return f"{counted(result.rows, 'row')} {'upserted' if result.table.primary_key else 'appended'}"


def _row(path: TablePath, result: IngestResult) -> dict[str, Any]:
    ranges = [
        {"partition_id": bucket.partition_id, "bucket_id": bucket.bucket_id, "starting_offset": start, "stopping_offset": stop}
        for bucket, (start, stop) in result.ranges.items()
    ]
    return {"table": str(path), "created": result.created, "rows": result.rows, "writer_id": result.writer_id, "ranges": ranges}
