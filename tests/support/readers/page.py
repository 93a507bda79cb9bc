"""Writes docs/readers.md from the matrix: `PYTHONPATH=tests .venv/bin/python -m support.readers.page`.

With the argument `Iceberg` or `Paimon` it writes only that part and the introduction. With the argument `introduction` it writes only the
introduction. With the argument `chdb`, or `trino` and the folders of an unpacked trino-server and of a JDK that it accepts, it writes
nothing: it lets that reader read the Iceberg tables, and prints how many results are equal, how many its limit explains, and all others.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

import structlog

from support.readers.iceberg_readers import ICEBERG_LIMITS, chdb, iceberg_readers, trino
from support.readers.matrix import Cell, Limit, matrix
from support.readers.paimon_readers import PAIMON_LIMITS, paimon_readers
from support.readers.questions import Reader
from support.readers.source_tables import TieredWorld
from support.readers.stories import all_cases
from support.readers.trino.server import trino_server
from support.repository import ROOT
from support.running.spark_sessions import spark_session
from tiering.cli.spark.properties import lake_properties_for_spark

PAGE = ROOT / "docs" / "readers.md"

_LIMITS = "\n".join(f"- {limit.text}" for limit in (*ICEBERG_LIMITS, *PAIMON_LIMITS))

ONLY_INTRODUCTION = "introduction"
"""An argument beside the formats of the lake and `BY_HAND`."""

INTRODUCTION = f"""# Readers of the lake tables

This page says which engines read the lake tables, how each one opens a table, and whether it reads the same rows as the source has.
For example, with pyiceberg:

```python
catalog.load_table("sales.orders").scan().to_arrow()
```

In the tables below, `equal` means that columns, types and rows equal those of the source. `limit N` means that the reader differs in a
known way, which is named at the end of the section. A test tiers tables, lets every reader read them, and fails if a result differs from
this page.

| reader | how it opens a table | plans the scan | reads the files |
|---|---|---|---|
| pyiceberg | `catalog.load_table("db.t").scan()` | pyiceberg | PyArrow |
| Spark | `SELECT * FROM lake.db.t`, with what `lakeward spark-conf --lake` prints | Iceberg's Java library | its vectorised reader |
| DuckDB | `lakeward sql --engine duckdb`; DuckDB's extensions for lakes take no part | Lakeward | DuckDB |
| DuckDB 1.5, `iceberg` extension | `SELECT * FROM iceberg_scan('.../00007-....metadata.json')` | DuckDB | DuckDB |
| iceberg-go | `table.NewFromLocation(...).Scan().ToArrowRecords(ctx)`, in Go | iceberg-go | iceberg-go |
| DataFusion | `context.register_table("t", catalog.load_table("db.t"))` with `pyiceberg-core` | iceberg-rust | iceberg-rust |
| Polars | `polars.scan_iceberg(table, reader_override="native")` | pyiceberg | Polars |
| Daft | `daft.read_iceberg(table)` | pyiceberg | Daft |
| Paimon (Java) | `catalog.getTable(...).newReadBuilder()`, with Paimon's Java library | Paimon | Paimon |
| pypaimon | `catalog.get_table("db.t").new_read_builder()` | pypaimon | PyArrow |
| pypaimon-rust | `PaimonCatalog({{"warehouse": ...}}).get_table("db.t").new_read_builder()` | paimon-rust | paimon-rust |

Which of them were tested:
- **With the tool itself**, in each release: all readers in the table above. DuckDB's extension is a package on PyPI only up to 1.5.5.
- **With the tool itself, by hand**: chDB 4.4.0, with `SELECT * FROM icebergLocal('FOLDER', SETTINGS iceberg_metadata_file_path = '...')`.
  Of 186 results 136 are equal and 38 differ as its limit below says, among them each dead-letter table, whose `raw_record` is BYTES.
  The other 12 are about ROW, or columns inside of others, and differ in the same ways.
  `PYTHONPATH=.:tests .venv/bin/python -m support.readers.page chdb` repeats it, and installs 800 MB.
- **With the tool itself, by hand**: Trino's server 476 on Java 25, asked by its Python client 0.340.0. Its Iceberg connector had
  [a REST catalog](publish.md), the tests' own one. All 186 results are equal: each row of both Iceberg sections below, the earlier
  snapshots by `SELECT * FROM lake.db.t FOR VERSION AS OF 4217`. The server needs Java 24 or newer, so no test runs it. To repeat it:

```
mvn dependency:copy -Dartifact=io.trino:trino-server:476:tar.gz -DoutputDirectory=/tmp && tar xzf /tmp/trino-server-476.tar.gz -C /tmp
PYTHONPATH=.:tests .venv/bin/python -m support.readers.page trino /tmp/trino-server-476 /usr/lib/jvm/JAVA_25
```

The first line downloads 821 MB. The second one starts catalog and server on ports of the loopback interface, and stops them at the end.
Trino's catalog has these properties:

```
connector.name=iceberg
iceberg.catalog.type=rest
iceberg.rest-catalog.uri=http://127.0.0.1:8181
iceberg.rest-catalog.view-endpoints-enabled=false
fs.hadoop.enabled=true
```

The fourth one is for a catalog without views, such as the tests' one. The fifth one lets Trino read files of its own machine.

Limits:
- No lake table has TIME, BINARY(n), or timestamps finer than microseconds. Lakeward refuses to tier such a column and names it.
- Lakeward gives DuckDB the lists of files and deletes, and merges the keys of Paimon tables in SQL.
- DataFusion does not read a snapshot by its number. Open the metadata file of that time instead (`StaticTable.from_metadata`).
{_LIMITS}
"""


def page(of_format: Mapping[str, str]) -> str:
    """Returns the page. `of_format`: its parts by the format of the lake."""
    return "\n".join([INTRODUCTION, *(of_format[lake_format] for lake_format in CELLS)])


def section(lake_format: str, cells: Sequence[Cell]) -> str:
    """Returns the part of the page about lake tables of a format."""
    return "\n".join(_section(lake_format, cells))


def sections(text: str) -> tuple[str, Mapping[str, str]]:
    """Returns the introduction of a page, and its parts by the format of the lake."""
    introduction, *parts = text.split("\n## ")
    return introduction, {lake_format: "\n".join(f"## {part}" for part in of_format) for lake_format, of_format in _by_format(parts)}


def _by_format(parts: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    for lake_format, of_format in groupby(parts, key=lambda part: part.split(",")[0]):
        yield lake_format, list(of_format)


def _section(lake_format: str, cells: Sequence[Cell]) -> Iterator[str]:
    limits = list(dict.fromkeys(cell.limit for cell in cells if cell.limit is not None))
    for layout in dict.fromkeys(cell.case.layout for cell in cells):
        yield f"## {lake_format}, layout `{layout}`\n"
        yield from _matrix_lines([cell for cell in cells if cell.case.layout == layout], limits)
    for number, limit in enumerate(limits, start=1):
        yield f"**limit {number}**: {limit.text}\n"


def _matrix_lines(cells: Sequence[Cell], limits: Sequence[Limit]) -> Iterator[str]:
    readers = list(dict.fromkeys(cell.reader.title for cell in cells))
    cases = list({id(cell.case): cell.case for cell in cells}.values())
    results = {(id(cell.case), cell.reader.title): _result(cell, limits) for cell in cells}
    for group, of_group in groupby(cases, key=lambda case: case.group):
        yield f"| {group} | {' | '.join(readers)} |"
        yield "|---" * (1 + len(readers)) + "|"
        for case in of_group:
            yield f"| {case.title} | {' | '.join(results[id(case), reader] for reader in readers)} |"
        yield ""


def _result(cell: Cell, limits: Sequence[Limit]) -> str:
    if cell.difference is None:
        return "equal"
    return "different" if cell.limit is None else f"limit {limits.index(cell.limit) + 1}"


def iceberg_cells(folder: Path) -> list[Cell]:
    world = TieredWorld(folder)
    cases = all_cases(world)
    with spark_session(folder / "warehouse", lake_properties_for_spark(world.lake_properties)) as spark:
        cells = matrix(cases, iceberg_readers(world.lake_properties, spark), ICEBERG_LIMITS)
    world.close()
    return cells


def paimon_cells(folder: Path) -> list[Cell]:
    world = TieredWorld(folder, "paimon")
    cells = matrix(all_cases(world), paimon_readers(world.warehouse), PAIMON_LIMITS)
    world.close()
    return cells


CELLS: Mapping[str, Callable[[Path], list[Cell]]] = {"Iceberg": iceberg_cells, "Paimon": paimon_cells}
"""By the format of the lake, in the page's order."""


@contextmanager
def running_chdb(lake_properties: Mapping[str, str], _: Sequence[str]) -> Iterator[Reader]:
    yield chdb(lake_properties)


@contextmanager
def running_trino(lake_properties: Mapping[str, str], arguments: Sequence[str]) -> Iterator[Reader]:
    """`arguments`: the folders of an unpacked trino-server and of a JDK that it accepts."""
    installation, java_home = map(Path, arguments)
    with TemporaryDirectory() as folder, trino_server(installation, java_home, lake_properties, Path(folder)) as uri:
        yield trino(uri)


BY_HAND: Mapping[str, Callable[[Mapping[str, str], Sequence[str]], AbstractContextManager[Reader]]] = {
    "chdb": running_chdb,
    "trino": running_trino,
}
"""Readers that no test runs, by the name on the command line. Each takes the properties of the lake and the other arguments."""


def read_by_hand(folder: Path, name: str, arguments: Sequence[str]) -> Iterator[str]:
    """Yields a line for each result of a reader that differs, then a summary."""
    world = TieredWorld(folder)
    cases = all_cases(world)
    with BY_HAND[name](world.lake_properties, arguments) as reader:
        cells = matrix(cases, [reader], ICEBERG_LIMITS)
    world.close()
    for cell in cells:
        if not cell.is_explained:
            yield f"{cell.case.layout}: {cell.case.title}: {cell.difference}"
    equal, limited = sum(cell.difference is None for cell in cells), sum(cell.limit is not None for cell in cells)
    yield f"{len(cells)} results: {equal} equal, {limited} as the limit says"


def main(formats: Sequence[str]) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    if formats and formats[0] in BY_HAND:
        with TemporaryDirectory() as folder:
            print("\n".join(read_by_hand(Path(folder), formats[0], formats[1:])))
        return
    _, of_format = sections(PAGE.read_text())
    for lake_format in formats or CELLS:
        if lake_format == ONLY_INTRODUCTION:
            continue
        with TemporaryDirectory() as folder:
            of_format = {**of_format, lake_format: section(lake_format, CELLS[lake_format](Path(folder)))}
    PAGE.write_text(page(of_format))


if __name__ == "__main__":
    main(sys.argv[1:])
