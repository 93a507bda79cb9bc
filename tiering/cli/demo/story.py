"""The demo, step by step.

Rows arrive while rounds run, and SQL shows the progress. Rows of a primary-key table are updated and deleted. One table fails and is
repaired. DuckDB proves that lake and log are equal.
"""

from __future__ import annotations

import threading

import pyarrow as pa
from pyiceberg.types import StringType

from tiering.cli.demo import data
from tiering.cli.demo.stage import DATABASE, FLIGHTS, FRESHNESS, PLANES, STATUS_SQL, Stage
from tiering.cli.spark.properties import CATALOG
from tiering.lake.iceberg.catalogs.opening import open_catalog
from tiering.model.names import table_path

WEATHER = table_path(DATABASE, data.WEATHER)
HAND_MADE_COLUMN = "checked_by"
ERROR_SQL = (
    f"SELECT table_name, status, error_class, last_error, error_hint, consecutive_failures AS failures "
    f"FROM {CATALOG}.sys.lake_tiering_status WHERE error_class IS NOT NULL"
)
FRESH_SQL = f"SELECT count(*) AS flights, max(month) AS month FROM {CATALOG}.{FLIGHTS}"


INLINE_ROUND_BYTES = 64 * 1024
"""Smaller than the default of 64 MiB, with which the rounds of the demo would run without a Spark job."""


def tell(stage: Stage) -> bool:
    """Shows the whole demo. Returns whether every proof held."""
    flights, weather = data.read_flights(), data.read_weather()
    months = data.by_month(flights)
    stage.say(
        f"Two tables of {flights.num_rows:,} flights and {weather.num_rows:,} hours of weather; a copy in the lake at most {FRESHNESS} old"
    )
    stage.create(FLIGHTS, flights.schema)
    stage.create(WEATHER, weather.schema)
    stage.writer(FLIGHTS).append(months[0])
    half = weather.num_rows // 2
    stage.writer(WEATHER).append(weather.slice(0, half))
    stage.sql(f"SHOW NAMESPACES IN {CATALOG}")
    stage.sql(f"SHOW TABLES IN {CATALOG}.sys")
    _watch_it_tier(stage, months[1:-1])
    stage.say("December has just arrived")
    stage.writer(FLIGHTS).append(months[-1])
    stage.say("A fresh read has December already: it reads the lake copy, and the rows that are only in the log")
    stage.fresh(FRESH_SQL)
    stage.say("The lake copy gets December: do not wait for the schedule, and tier now")
    stage.tier(FLIGHTS)
    planes = _change_planes(stage)
    _fail_and_mend(stage, weather.slice(half))
    stage.client.tier_table(FLIGHTS)
    stage.show_places(f"those of more than {INLINE_ROUND_BYTES // 1024} KiB as jobs of the tierer's Spark")
    stage.show_health()
    return stage.prove({FLIGHTS: flights.num_rows, WEATHER: weather.num_rows, PLANES: planes})


def _change_planes(stage: Stage) -> int:
    """Upserts, corrects and deletes rows of a primary-key table. Returns how many rows are left."""
    planes = data.read_planes()
    stage.say(f"A table with a primary key: {planes.num_rows:,} planes by tail number")
    stage.create(PLANES, planes.schema, primary_key=(data.PLANE_KEY,))
    stage.writer(PLANES).upsert(planes)
    stage.tier(PLANES)
    return correct_and_retire(stage, planes)


def correct_and_retire(stage: Stage, planes: pa.Table) -> int:
    """Updates some planes and deletes others, in the table and then in the lake. Returns how many are left."""
    corrected, retired = data.corrected(planes), data.retired(planes)
    stage.say(f"{corrected.num_rows} planes get their manufacturer's new name, {retired.num_rows} old ones are retired")
    stage.writer(PLANES).upsert(corrected)
    stage.writer(PLANES).delete(retired)
    stage.tier(PLANES)
    return planes.num_rows - retired.num_rows


def _watch_it_tier(stage: Stage, months: list[pa.Table]) -> None:
    """Writes one month after the other while rounds run, and shows the status meanwhile."""
    stage.say("Ten more months arrive while rounds run")

    def feed() -> None:
        for month in months:
            stage.writer(FLIGHTS).append(month)
            pause.wait(0.8)

    pause = threading.Event()
    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    while feeder.is_alive():
        stage.sql(STATUS_SQL)
        feeder.join(3)


def _fail_and_mend(stage: Stage, rows: pa.Table) -> None:
    stage.say(f"A user adds a column to the lake table of {WEATHER} by hand, and new rows arrive")
    stage.wait_for_status(WEATHER, failing=False)
    _alter_lake(stage, add=True)
    stage.writer(WEATHER).append(rows)
    stage.wait_for_status(WEATHER, failing=True)
    stage.sql(ERROR_SQL, vertical=True)
    stage.say("The repair: drop the column, and tier the table again")
    _alter_lake(stage, add=False)
    stage.sql(f"CALL {CATALOG}.sys.tier_table(table => '{WEATHER}')", vertical=True)
    stage.sql(f"SELECT table_name, status, last_error, consecutive_failures FROM {CATALOG}.sys.lake_tiering_status")


def _alter_lake(stage: Stage, add: bool) -> None:
    catalog = open_catalog(stage.service.lake_properties)
    with catalog.load_table((WEATHER.database_name, WEATHER.table_name)).update_schema() as change:
        if add:
            change.add_column(HAND_MADE_COLUMN, StringType())
        else:
            change.delete_column(HAND_MADE_COLUMN)
