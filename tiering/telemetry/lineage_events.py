"""OpenLineage's events of rounds, as JSON objects. Pure functions from the coordinator's records.

Specification: https://openlineage.io/docs/spec/object-model, and https://openlineage.io/docs/spec/naming for names. A round is a run, and
its id is the run's id. A round that no tierer ran has no event, because it read nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from tiering.coordinator.decisions.change import Change
from tiering.coordinator.decisions.records import RoundRecord, TableRecord, Trigger
from tiering.model.rounds import RoundState
from tiering.model.schema.field_ids import comment
from tiering.model.sql_types import spark_type
from tiering.model.tables import TableInfo
from tiering.telemetry.metrics import VERSION

PRODUCER = f"urn:lakeward:{VERSION}"
_SPECIFICATION = "https://openlineage.io/spec"
EVENT_SCHEMA = f"{_SPECIFICATION}/2-0-2/OpenLineage.json#/$defs/RunEvent"
ROUND_FACET = "lakeward_round"
ROUND_FACET_SCHEMA = "urn:lakeward:openlineage:1-0-0:LakewardRoundRunFacet"
"""Id of the schema of Lakeward's own facet, in docs/openlineage.md. A URN, because the project has no public address yet."""
MOST_BUCKETS = 1_000
"""Most buckets whose offsets an event names, so that its size has a bound. `sys.lake_commits` has the offsets of all buckets."""

_FACETS = {
    "columnLineage": "1-2-0/ColumnLineageDatasetFacet",
    "errorMessage": "1-0-1/ErrorMessageRunFacet",
    "jobType": "2-0-4/JobTypeJobFacet",
    "outputStatistics": "1-0-2/OutputStatisticsOutputDatasetFacet",
    "processing_engine": "1-1-1/ProcessingEngineRunFacet",
    "schema": "1-2-0/SchemaDatasetFacet",
    "storage": "1-0-1/StorageDatasetFacet",
    "symlinks": "1-0-1/SymlinksDatasetFacet",
    "version": "1-0-1/DatasetVersionDatasetFacet",
}
"""Version and schema of each standard facet, by its key in an event."""
_SCHEMES = {"s3a": "s3", "s3n": "s3"}
"""Names of Hadoop's file systems whose standard name is another one."""

Json = dict[str, Any]


class EventType(StrEnum):
    """The types of events that rounds have."""

    START = "START"
    COMPLETE = "COMPLETE"
    FAIL = "FAIL"
    ABORT = "ABORT"


EVENT_TYPES: Mapping[RoundState, EventType] = {
    RoundState.RUNNING: EventType.START,
    RoundState.SUCCEEDED: EventType.COMPLETE,
    RoundState.EMPTY: EventType.COMPLETE,
    RoundState.FORCE_FINISHED: EventType.COMPLETE,
    RoundState.FAILED: EventType.FAIL,
    RoundState.CANCELLED: EventType.ABORT,
    RoundState.FENCED: EventType.ABORT,
}
"""The event of a round that enters a state. A queued round has none."""


@dataclass(frozen=True)
class RoundStep:
    """A round that began or ended, with the lake table as the coordinator knew it at that moment."""

    row: RoundRecord
    lake_format: str
    location: str | None
    snapshot_id: int | None
    offsets: Mapping[str, int]

    @property
    def event_type(self) -> EventType:
        return EVENT_TYPES[self.row.state]


@dataclass(frozen=True)
class LineageNames:
    """Namespaces of events: of the jobs, and of the source tables. `warehouse`: that of the lake's catalog; None = unknown."""

    job_namespace: str
    source_namespace: str
    warehouse: str | None = None


def steps_of(changes: Iterable[Change], before: Callable[[int], TableRecord | None]) -> list[RoundStep]:
    """Returns the rounds that begin or end with these changes, which are in order. `before` returns a table's record before them."""
    steps = []
    states: dict[str, RoundState] = {}
    for change in changes:
        for row in change.rounds.values():
            if row.round_id not in states:
                states |= _state_before(before(row.table_id))
            is_step = row.state in EVENT_TYPES and row.started_time is not None and states.get(row.round_id) is not row.state
            states[row.round_id] = row.state
            if is_step:
                steps.append(_step(row, change.record))
    return steps


def _state_before(record: TableRecord | None) -> dict[str, RoundState]:
    return {} if record is None or record.round is None else {record.round.round_id: record.round.state}


def _step(row: RoundRecord, record: TableRecord) -> RoundStep:
    lake = record.lake
    return RoundStep(row, record.lake_format, lake.location, lake.snapshot_id, lake.offsets or {})


def event_of(step: RoundStep, names: LineageNames, table: TableInfo | None) -> Json:
    """Returns the event as a JSON object. `table` describes the source table; None = unknown, and then no column is named.

    An upkeep round reads and writes the lake table. The lake table is left out before its first commit, because its place is unknown.
    """
    row = step.row
    source: Json = {"namespace": names.source_namespace, "name": _table(row)}
    lake = _lake_dataset(step, names, source, table)
    if table is not None:
        source["facets"] = {"schema": _schema(table)}
    is_upkeep = row.trigger is Trigger.UPKEEP
    return {
        "eventType": step.event_type.value,
        "eventTime": _text(_time(row)),
        "producer": PRODUCER,
        "schemaURL": EVENT_SCHEMA,
        "run": {"runId": row.round_id, "facets": _run_facets(step)},
        "job": {
            "namespace": names.job_namespace,
            "name": f"{'upkeep' if is_upkeep else 'tiering'}.{_table(row)}",
            "facets": {"jobType": _facet("jobType", processingType="BATCH", integration="LAKEWARD", jobType="ROUND")},
        },
        "inputs": [{name: lake[name] for name in ("namespace", "name")}] if is_upkeep and lake else [] if is_upkeep else [source],
        "outputs": [lake] if lake else [],
    }


def _table(row: RoundRecord) -> str:
    return f"{row.database_name}.{row.table_name}"


def _time(row: RoundRecord) -> datetime:
    """Returns the time of the round's latest step."""
    moment = row.finished_time if row.state.is_final else row.started_time
    assert moment is not None
    return moment


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _facet(key: str, **fields: Any) -> Json:
    """Returns a standard facet, without fields that are None."""
    version, _, name = _FACETS[key].partition("/")
    url = f"{_SPECIFICATION}/facets/{version}/{name}.json#/$defs/{name}"
    return {"_producer": PRODUCER, "_schemaURL": url, **{field: value for field, value in fields.items() if value is not None}}


def _run_facets(step: RoundStep) -> Json:
    row, facets = step.row, {ROUND_FACET: _round_facet(step)}
    facets["processing_engine"] = _facet("processing_engine", name="Lakeward", version=VERSION)
    if row.error is not None:
        message = f"[{row.error.error_class}] {row.error.message} {row.error.full_hint}".strip()
        facets["errorMessage"] = _facet("errorMessage", message=message, programmingLanguage="PYTHON")
    return facets


def _round_facet(step: RoundStep) -> Json:
    """Returns Lakeward's own facet. The offsets of two events of a round are those before and after it."""
    row, stats = step.row, step.row.stats
    offsets = [{"bucket": bucket, "offset": offset} for bucket, offset in islice(step.offsets.items(), MOST_BUCKETS)]
    fields = {
        "tableId": row.table_id,
        "tieringEpoch": row.tiering_epoch,
        "state": row.state.value,
        "trigger": row.trigger.value,
        "mode": None if row.mode is None else row.mode.value,
        "attempt": row.attempt,
        "tierer": row.tierer_id,
        "recordsRead": None if stats is None else stats.records_read,
        "lakeSnapshotId": None if step.snapshot_id is None else str(step.snapshot_id),
        "offsets": offsets,
        "bucketsLeftOut": len(step.offsets) - len(offsets),
    }
    own = {"_producer": PRODUCER, "_schemaURL": ROUND_FACET_SCHEMA}
    return own | {name: value for name, value in fields.items() if value is not None}


def _lake_dataset(step: RoundStep, names: LineageNames, source: Json, table: TableInfo | None) -> Json | None:
    if step.location is None:
        return None
    namespace, name = dataset_name(step.location)
    facets = {"storage": _facet("storage", storageLayer=step.lake_format, fileFormat="parquet")}
    if step.snapshot_id is not None:
        facets["version"] = _facet("version", datasetVersion=str(step.snapshot_id))
    if names.warehouse is not None:
        identifier = {"namespace": names.warehouse.rstrip("/"), "name": source["name"], "type": "TABLE"}
        facets["symlinks"] = _facet("symlinks", identifiers=[identifier])
    if table is not None:
        facets["schema"] = _schema(table)
        facets["columnLineage"] = _column_lineage(source, table)
    dataset: Json = {"namespace": namespace, "name": name, "facets": facets}
    stats = step.row.stats
    if stats is not None and step.row.state.ended_well:
        written = {"rowCount": stats.records_written, "size": stats.bytes_written, "fileCount": stats.files_written}
        dataset["outputFacets"] = {"outputStatistics": _facet("outputStatistics", **written)}
    return dataset


def dataset_name(location: str) -> tuple[str, str]:
    """Returns namespace and name of the dataset at a location, by OpenLineage's rules for file systems and object stores."""
    parts = urlsplit(location)
    if parts.scheme in ("", "file") and not parts.netloc:
        return "file", parts.path.rstrip("/")
    scheme = _SCHEMES.get(parts.scheme, parts.scheme)
    path = parts.path.rstrip("/")
    return f"{scheme}://{parts.netloc}", path if scheme in ("file", "hdfs", "abfs", "abfss") else path.lstrip("/")


def _schema(table: TableInfo) -> Json:
    fields = []
    for position, column in enumerate(table.schema, 1):
        described = {"name": column.name, "type": spark_type(column.type), "description": comment(column), "ordinal_position": position}
        fields.append({name: value for name, value in described.items() if value is not None})
    return _facet("schema", fields=fields)


def _column_lineage(source: Json, table: TableInfo) -> Json:
    """Returns the facet that says that each column of the lake table is a copy of the source's column with its name."""
    copied = [{"type": "DIRECT", "subtype": "IDENTITY"}]
    fields = {name: {"inputFields": [{**source, "field": name, "transformations": copied}]} for name in table.schema.names}
    return _facet("columnLineage", fields=fields)
