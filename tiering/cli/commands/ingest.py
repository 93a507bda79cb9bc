"""`lakeward ingest`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from tiering.cli.terminal.cluster_options import FlussServersOption
from tiering.cli.terminal.consoles import end_orderly_on_sigterm, message_console, printable, warn
from tiering.cli.terminal.options import DEFAULT_URI, FormatOption, UriOption, read_pairs
from tiering.cli.terminal.output import OutputFormat, print_rows
from tiering.counts import counted
from tiering.durations import freshness_warning, parse_duration_ms
from tiering.errors import InvalidArgument
from tiering.ingest.formats import FileFormat, Reading, read_delimiter
from tiering.model.names import check_name, parse_table_path
from tiering.model.tables import TablePath

if TYPE_CHECKING:
    import pyarrow as pa

    from tiering.ingest.load import IngestResult

SHOWN_BUCKETS = 16
"""Of a table with many partitions nobody reads more."""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("ingest")(ingest)


def ingest(
    table: Annotated[str, typer.Argument(help="db.table; made on demand.")],
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...", help="Parquet, csv or ndjson files, also .gz and .zst; patterns in quotes; - is the standard input."
        ),
    ],
    uri: UriOption = DEFAULT_URI,
    fluss: FlussServersOption = None,
    file_format: Annotated[FileFormat | None, typer.Option(help="Default: by the file's ending.")] = None,
    schema: Annotated[str | None, typer.Option(help="All columns of a new table: 'id BIGINT, zip STRING'.")] = None,
    column_type: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="NAME=TYPE", help="Type of a new column: zip=STRING. Repeatable. Default: as the file has it."),
    ] = None,
    rename: Annotated[
        list[str] | None, typer.Option(metavar="OLD=NEW", help="Another name for a column of the file: 'Order ID=order_id'. Repeatable.")
    ] = None,
    delimiter: Annotated[str | None, typer.Option(help="Of a csv file: ';', tab. Default: found in the first lines.")] = None,
    encoding: Annotated[
        str | None, typer.Option(help="Of text: latin-1, cp1252, utf-16. Default: utf-8, or the byte order mark's.")
    ] = None,
    null: Annotated[
        list[str] | None,
        typer.Option(
            "--null", help="Unquoted text that is null in a csv file. Repeatable. Default: nothing, NA, N/A, NaN, nan, NULL, null."
        ),
    ] = None,
    header: Annotated[bool | None, typer.Option(help="Whether the first line of a csv file names the columns. Default: yes.")] = None,
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
    """Load files into a table of the service's cluster, or of a Fluss cluster. Nothing is written unless all can be read.

    Fluss remembers no writer: there --writer-id has no effect, and an interrupted run that is repeated appends its rows again.

    Example: lakeward ingest sales.orders orders.csv --buckets 4 --freshness '30 s'

    Example: lakeward ingest sales.customers customers.csv --primary-key id

    Example: lakeward ingest sales.orders 'export/*.csv.gz' --type zip=STRING --rename 'Order ID=order_id'
    """
    # Here and not above: the other commands, and their help, do without what it needs.
    from tiering.cli.service_cluster import writable_cluster
    from tiering.ingest.load import IngestOptions, ingest_files

    path = parse_table_path(table)
    keys = tuple(bucket_key) if bucket_key else None
    columns, types = _types(schema, column_type or ())
    reading = Reading(file_format, delimiter and read_delimiter(delimiter), encoding, header, _new_names(rename or ()), null or None)
    options = IngestOptions(
        reading,
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
        columns,
        types,
    )
    with writable_cluster(uri, fluss) as cluster, _bar(path, files) as progress:
        result = ingest_files(cluster, path, files, options, progress)
    if freshness is not None:
        warn(freshness_warning(parse_duration_ms(freshness)))
    _print_result(path, result, output)


def _print_result(path: TablePath, result: IngestResult, output: OutputFormat) -> None:
    if output is OutputFormat.TABLE:
        print(_summary(path, result))
    else:
        print_rows([_row(path, result)], output)


def _types(schema: str | None, pairs: Iterable[str]) -> tuple[pa.Schema | None, dict[str, pa.DataType]]:
    """Returns all columns of a new table, if they are given, and the types of single ones. Raises InvalidArgument."""
    from tiering.cli.spark.types import arrow_schema, arrow_type

    types = {name: arrow_type(kind) for name, kind in read_pairs(pairs, "--type").items()}
    if schema is not None and types:
        raise InvalidArgument("--schema and --type are both there", hint="Say all types in --schema.")
    return None if schema is None else arrow_schema(schema), types


def _new_names(pairs: Iterable[str]) -> dict[str, str]:
    """Returns the new names of columns; what stands before the last `=` is the name in the file. Raises InvalidArgument."""
    rename: dict[str, str] = {}
    for pair in pairs:
        name, equals, new = pair.rpartition("=")
        if not equals or name in rename or new in rename.values():
            raise InvalidArgument(
                f"--rename {pair!r} is not of the form OLD=NEW, or is there twice", hint="Write --rename 'Order ID=order_id'."
            )
        rename[name] = check_name(new, "column")
    return rename


def _names(columns: str | None) -> tuple[str, ...] | None:
    return None if columns is None else tuple(name.strip() for name in columns.split(","))


@contextmanager
def _bar(path: TablePath, files: Sequence[str]) -> Iterator[Callable[[int, int], None] | None]:
    """Takes rows done and rows in all: a bar on a terminal, gone at the end; nothing elsewhere."""
    console = message_console()
    if not console.is_terminal:
        yield None
        return
    end_orderly_on_sigterm()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(f"reading {printable(PurePath(files[0]).name if len(files) == 1 else f'{len(files)} files')}", total=None)
        yield lambda done, total: bar.update(task, description=f"writing to {path}", completed=done, total=total)


def _summary(path: TablePath, result: IngestResult) -> str:
    creation = "made, " if result.created else ""
    shown = [f"{bucket}: [{start}, {stop})" for bucket, (start, stop) in list(result.ranges.items())[:SHOWN_BUCKETS]]
    more = len(result.ranges) - len(shown)
    partitions = {bucket.partition_id for bucket in result.ranges} - {None}
    into = f" to {counted(len(partitions), 'partition')}" if partitions else ""
    ranges = ", ".join(shown) + (f", and {more} more" if more else "")
    lines = [f"{path}: {creation}{_done(result)}{into}; offsets by bucket: {ranges or 'none'}", *_findings(result)]
    return "\n".join(lines)


def _findings(result: IngestResult) -> Iterator[str]:
    """Yields what was found out about the files and not said by the user: the columns of a new table, doubts, delimiter, encoding."""
    from sys_tables.declare.sql_types import column_list

    if result.created:
        yield f"  columns: {column_list(result.table.schema)}"
    for name, reason in result.doubts.items():
        yield f"  {name} is STRING: {reason}. For a new table, --type {name}=TYPE decides."
    if result.read_as:
        yield f"  read with {' and '.join(result.read_as)}"


def _done(result: IngestResult) -> str:
    if result.deletes:
        return f"{result.records} of {result.rows} keys deleted"
    return f"{counted(result.rows, 'row')} {'upserted' if result.table.primary_key else 'appended'}"


def _row(path: TablePath, result: IngestResult) -> dict[str, Any]:
    ranges = [
        {"partition_id": bucket.partition_id, "bucket_id": bucket.bucket_id, "starting_offset": start, "stopping_offset": stop}
        for bucket, (start, stop) in result.ranges.items()
    ]
    from sys_tables.declare.sql_types import column_list

    return {
        "table": str(path),
        "created": result.created,
        "rows": result.rows,
        "writer_id": result.writer_id,
        "ranges": ranges,
        "columns": column_list(result.table.schema),
        "doubts": dict(result.doubts),
        "read_as": list(result.read_as),
    }
