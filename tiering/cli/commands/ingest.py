"""`lakeward ingest`: loads files into a table."""

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

READING = "Reading the files"
NEW_TABLE = "A new table"
"""Titles of groups of options."""

SHOWN_BUCKETS = 16
"""Buckets in the summary. For a table with many partitions, more lines would hide the rest of it."""


def ingest(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table, as database.table. The command creates it if it is missing.")],
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE",
            help="Parquet, CSV or NDJSON files, also compressed as .gz or .zst. Put patterns in quotes. - is the standard input.",
        ),
    ],
    uri: UriOption = DEFAULT_URI,
    fluss: FlussServersOption = None,
    file_format: Annotated[
        FileFormat | None, typer.Option(help="Format of the files. Default: their ending decides.", rich_help_panel=READING)
    ] = None,
    schema: Annotated[
        str | None, typer.Option(metavar="COLUMNS", help="All columns of a new table: 'id BIGINT, zip STRING'.", rich_help_panel=NEW_TABLE)
    ] = None,
    column_type: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            metavar="NAME=TYPE",
            help="Type of a new column: zip=STRING. Can be repeated. Default: the type in the file.",
            rich_help_panel=NEW_TABLE,
        ),
    ] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OLD=NEW", help="Another name for a column of the file: 'Order ID=order_id'. Can be repeated.", rich_help_panel=READING
        ),
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Delimiter of a CSV file, such as ';' or tab. Default: the first lines show it.", rich_help_panel=READING
        ),
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Encoding of a text file: latin-1, cp1252, utf-16. Default: the byte order mark decides, else utf-8.",
            rich_help_panel=READING,
        ),
    ] = None,
    null: Annotated[
        list[str] | None,
        typer.Option(
            "--null",
            metavar="TEXT",
            help="Unquoted text that means null in a CSV file. Can be repeated. Default: an empty field, NA, N/A, NaN, nan, NULL, null.",
            rich_help_panel=READING,
        ),
    ] = None,
    header: Annotated[
        bool | None, typer.Option(help="Whether the first line of a CSV file names the columns. Default: yes.", rich_help_panel=READING)
    ] = None,
    buckets: Annotated[
        int | None, typer.Option(metavar="COUNT", min=1, help="Number of buckets of a new table.", rich_help_panel=NEW_TABLE)
    ] = None,
    bucket_key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Column that decides the bucket of a row in a new table. Can be repeated. Default: round robin.",
            rich_help_panel=NEW_TABLE,
        ),
    ] = None,
    primary_key: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS", help="Key columns of a new primary-key table: a,b. The command upserts the rows.", rich_help_panel=NEW_TABLE
        ),
    ] = None,
    deletes: Annotated[bool, typer.Option("--deletes", help="Delete the rows whose keys are in the file.")] = False,
    partition_by: Annotated[
        str | None, typer.Option(metavar="COLUMNS", help="Partition columns of a new table: a,b.", rich_help_panel=NEW_TABLE)
    ] = None,
    freshness: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Freshness of a new table: how old its lake copy may be, such as '30 s' or '5 min'.",
            rich_help_panel=NEW_TABLE,
        ),
    ] = None,
    lake: Annotated[bool | None, typer.Option(help="Tier a new table into the lake. Default: yes.", rich_help_panel=NEW_TABLE)] = None,
    create: Annotated[bool, typer.Option(help="Create a missing database and table.", rich_help_panel=NEW_TABLE)] = True,
    add_columns: Annotated[bool, typer.Option("--add-columns", help="Add columns of the file that the table does not have.")] = False,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="NAME=VALUE",
            help="Option of a new table, such as table.log.ttl='7 d' (docs/options.md). Can be repeated.",
            rich_help_panel=NEW_TABLE,
        ),
    ] = None,
    writer_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Writer id of an interrupted run, which this run repeats without duplicate rows.")
    ] = None,
    output: FormatOption = OutputFormat.TABLE,
) -> None:
    """Load files into a table of the service's cluster, or of a Fluss cluster. The command writes nothing unless it can read all files.

    Fluss does not remember writers: there --writer-id has no effect, and a repeated run appends the rows of an interrupted run again.

    Example: lakeward ingest sales.orders orders.csv --buckets 4 --freshness '30 s'

    Example: lakeward ingest sales.customers customers.csv --primary-key id

    Example: lakeward ingest sales.orders 'export/*.csv.gz' --type zip=STRING --rename 'Order ID=order_id'
    """
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
    """Returns the columns that `--schema` lists, or None, and the types that `--type` names. Raises InvalidArgument."""
    from tiering.cli.spark.types import arrow_schema, arrow_type

    types = {name: arrow_type(kind) for name, kind in read_pairs(pairs, "--type").items()}
    if schema is not None and types:
        raise InvalidArgument("--schema and --type cannot be combined", hint="Put all types into --schema.")
    return None if schema is None else arrow_schema(schema), types


def _new_names(pairs: Iterable[str]) -> dict[str, str]:
    """Returns new names by the names in the file. The last `=` of a pair separates the two names. Raises InvalidArgument."""
    rename: dict[str, str] = {}
    for pair in pairs:
        name, equals, new = pair.rpartition("=")
        if not equals or name in rename or new in rename.values():
            raise InvalidArgument(
                f"--rename {pair!r} does not have the form OLD=NEW, or repeats a name", hint="Write --rename 'Order ID=order_id'."
            )
        rename[name] = check_name(new, "column")
    return rename


def _names(columns: str | None) -> tuple[str, ...] | None:
    return None if columns is None else tuple(name.strip() for name in columns.split(","))


@contextmanager
def _bar(path: TablePath, files: Sequence[str]) -> Iterator[Callable[[int, int], None] | None]:
    """Yields a function for done and total rows, which shows a bar on a terminal. Yields None without a terminal."""
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
    creation = "created, " if result.created else ""
    shown = [f"{bucket}: [{start}, {stop})" for bucket, (start, stop) in list(result.ranges.items())[:SHOWN_BUCKETS]]
    more = len(result.ranges) - len(shown)
    partitions = {bucket.partition_id for bucket in result.ranges} - {None}
    into = f" to {counted(len(partitions), 'partition')}" if partitions else ""
    ranges = ", ".join(shown) + (f", and {more} more" if more else "")
    lines = [f"{path}: {creation}{_done(result)}{into}; offsets by bucket: {ranges or 'none'}", *_findings(result)]
    return "\n".join(lines)


def _findings(result: IngestResult) -> Iterator[str]:
    """Yields what the command found out about the files: the columns of a new table, doubtful types, delimiter, encoding."""
    from tiering.model.sql_types import column_list

    if result.created:
        yield f"  columns: {column_list(result.table.schema)}"
    for name, reason in result.text_reasons.items():
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
    from tiering.model.sql_types import column_list

    return {
        "table": str(path),
        "created": result.created,
        "rows": result.rows,
        "writer_id": result.writer_id,
        "ranges": ranges,
        "columns": column_list(result.table.schema),
        "doubts": dict(result.text_reasons),
        "read_as": list(result.read_as),
    }
