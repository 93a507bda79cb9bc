"""Converts a Fluss table's description (`table_json`, TableDescriptorJsonSerde of 0.9.1) to a TableInfo. Pure.

Columns get the Arrow types in which they are written to a lake: timestamps in microseconds, fixed-length bytes as bytes. Types that a lake
cannot hold stay unchanged and are refused there, by name; a type that this version does not know is named in `TableInfo.refusal`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import pyarrow as pa
import structlog

from tiering.cluster.fluss.log.packed_rows import unreadable_format
from tiering.cluster.fluss.log.schemas import arrow_type
from tiering.cluster.fluss.settings import FLUSS_DEFAULTS, UpkeepDefaults
from tiering.errors import InvalidArgument, UnsupportedType
from tiering.instants import from_milliseconds
from tiering.lake import table_options
from tiering.lake.table_options import (
    AUTO_COMPACTION,
    AUTO_EXPIRE,
    FORMAT,
    LAKE_CATALOG_PROPERTY,
    SNAPSHOT_MAX_AGE,
    SNAPSHOT_MIN_COUNT,
    TABLE_OPTIONS,
)
from tiering.model.tables import TableInfo, TablePath, TableType

_log = structlog.get_logger(__name__)


HISTORICAL_PARTITION, HISTORICAL_OPTION = "__historical__", "table.datalake.historical-partition.enabled"
"""The system partition of Fluss 1.0 for rows of expired partitions (FIP-28), and the option that creates it."""


@dataclass(frozen=True)
class TableDescription:
    """The description of a table in GetTableInfo and Metadata. `created_ms` are milliseconds since the epoch."""

    path: TablePath
    table_id: int
    schema_id: int
    table_json: bytes
    created_ms: int


def table_info(
    description: TableDescription, own_options: Mapping[str, str] | None = None, defaults: UpkeepDefaults = FLUSS_DEFAULTS
) -> TableInfo:
    """Returns the described table; `own_options` are those that Fluss does not keep. `defaults` are those of this deployment.

    Never raises: an unreadable description or an unknown type becomes the table's `refusal`.
    """
    try:
        document = json.loads(description.table_json)
        schema, refusal = _schema(document["schema"])
        properties = {**document.get("custom_properties", {}), **_without_catalog(document.get("properties", {})), **(own_options or {})}
        properties = {str(name): str(value) for name, value in properties.items()}
        primary_key = tuple(document["schema"].get("primary_key") or ())
        info = TableInfo(
            table_id=description.table_id,
            path=description.path,
            table_type=TableType.PRIMARY_KEY if primary_key else TableType.LOG,
            schema=schema,
            bucket_count=int(document["bucket_count"]),
            created_at=from_milliseconds(description.created_ms),
            bucket_keys=tuple(document.get("bucket_key") or ()),
            primary_key=primary_key,
            partition_keys=tuple(document.get("partition_key") or ()),
            refusal=refusal or unreadable_format(properties, document["schema"]) or _historical_refusal(properties),
        )
        return with_options(info, properties, defaults)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return TableInfo(
            table_id=description.table_id,
            path=description.path,
            table_type=TableType.LOG,
            schema=pa.schema([]),
            bucket_count=1,
            created_at=from_milliseconds(description.created_ms),
            refusal=f"its description by the Fluss cluster cannot be read: {error!r}",
        )


def _historical_refusal(properties: Mapping[str, str]) -> str | None:
    """Returns why a table with rows of expired partitions is refused: no known field of its log names their original partitions."""
    if properties.get(HISTORICAL_OPTION, "false").lower() != "true":
        return None
    return (
        f"it has the option {HISTORICAL_OPTION!r}, and Lakeward cannot tell to which partitions the rows of the partition "
        f"{HISTORICAL_PARTITION!r} belong. Tier the table with Fluss's own tiering service, or set the option to 'false' in Fluss before "
        "a row of an expired partition is written"
    )


def historical_rows_refusal() -> str:
    """Returns why a table is refused that still has the partition for rows of expired partitions, although its option is off by now."""
    return (
        f"it still has the partition {HISTORICAL_PARTITION!r}, and Lakeward cannot tell to which partitions its rows belong. "
        f"Tier the table with Fluss's own tiering service, or recreate it without the option {HISTORICAL_OPTION!r}"
    )


def _without_catalog(properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a table's options without the properties of the cluster's lake catalog, which its description repeats and which may be
    secrets.
    """
    return {name: value for name, value in properties.items() if not LAKE_CATALOG_PROPERTY.match(name)}


def with_options(info: TableInfo, properties: Mapping[str, str], defaults: UpkeepDefaults = FLUSS_DEFAULTS) -> TableInfo:
    """Returns the table with these options and the values that follow from them. A value that cannot be read counts as absent."""
    readable = _readable(info.path, properties)
    on = {AUTO_COMPACTION.name: defaults.auto_compaction, AUTO_EXPIRE.name: defaults.auto_expire_snapshot}
    table = table_options.with_options(info, readable, {name: str(is_on).lower() for name, is_on in on.items()})
    # The cluster decides the format, also one that Lakeward does not write.
    return replace(table, properties=properties, lake_format=properties.get(FORMAT.name, FORMAT.default).lower())


def _readable(path: TablePath, properties: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the options whose values can be read, without the format. If an option of expiry cannot be read, no snapshot expires."""
    readable = {name: value for name, value in properties.items() if name != FORMAT.name}
    for name in readable.keys() & TABLE_OPTIONS.keys():
        try:
            TABLE_OPTIONS[name].of(properties)
        except InvalidArgument as error:
            _log.warning("a table's option cannot be read; its default is used", table=str(path), option=name, error=error.message)
            del readable[name]
            if name in (AUTO_EXPIRE.name, SNAPSHOT_MAX_AGE.name, SNAPSHOT_MIN_COUNT.name):
                readable[AUTO_EXPIRE.name] = "false"
    return readable


def _schema(document: Mapping[str, Any]) -> tuple[pa.Schema, str | None]:
    """Returns the columns, and why the table is refused; a column of an unknown type gets the type null."""
    fields, refusal = [], None
    for column in document["columns"]:
        name, kind = column["name"], column["data_type"]
        try:
            fields.append(pa.field(name, lake_type(arrow_type(kind, name)), kind.get("nullable", True)))
        except UnsupportedType as error:
            refusal = refusal or error.message
            fields.append(pa.field(name, pa.null()))
    return pa.schema(fields), refusal


def lake_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type in which values of a log's type are written to a lake; it differs only if no information is lost."""
    if isinstance(kind, pa.TimestampType) and kind.unit in ("s", "ms"):
        return pa.timestamp("us", tz=kind.tz)
    if isinstance(kind, pa.FixedSizeBinaryType) and not pa.types.is_decimal(kind):
        return pa.binary()
    if isinstance(kind, pa.ListType):
        return pa.list_(_lake_field(kind.value_field))
    if isinstance(kind, pa.MapType):
        # pyarrow accepts fields here, as its documentation says, but its stubs know only types.
        return cast(pa.DataType, cast(Any, pa).map_(lake_type(kind.key_type), _lake_field(kind.item_field)))
    if isinstance(kind, pa.StructType):
        return pa.struct([_lake_field(kind.field(index)) for index in range(kind.num_fields)])
    return kind


def _lake_field(field: pa.Field[Any]) -> pa.Field[Any]:
    return field.with_type(lake_type(field.type))
