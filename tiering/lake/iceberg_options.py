"""The allowed `iceberg.<name>` options of a table, which become the properties `<name>` of its lake table, and their values. Pure.

Only the options in this list are allowed. Other table properties are dangerous: pyiceberg imports and calls the class that
`py-io-impl` or `write.py-location-provider.impl` names, writes to the location in `write.data.path` or `write.metadata.path`, and
sends the credentials of the storage to `s3.endpoint`. The listed options change sizes, statistics, and how engines read and rewrite.
The check runs when a table is created or altered, and again before the properties of a lake table are used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tiering.errors import InvalidArgument
from tiering.name_matching import nearest_names

PREFIX = "iceberg."
COLUMN = "<column>"
"""Placeholder for a column name, at the end of an option's name."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,19}")
_METRICS_MODE = re.compile(r"none|counts|full|truncate\(([1-9][0-9]{0,3})\)", re.IGNORECASE)

GIB = 1 << 30
TEN_YEARS_MS = 3_652 * 86_400_000
MAX_COUNT = (1 << 31) - 1


@dataclass(frozen=True)
class LakeTableOption:
    """An allowed option. `values` describes the allowed values for people; `accepts` checks a value."""

    meaning: str
    values: str
    accepts: Callable[[str], bool]


def _number(low: int, high: int, meaning: str) -> LakeTableOption:
    def accepts(value: str) -> bool:
        return _WHOLE_NUMBER.fullmatch(value) is not None and low <= int(value) <= high

    return LakeTableOption(meaning, f"{low:,} to {high:,}", accepts)


def _choice(meaning: str, *values: str) -> LakeTableOption:
    return LakeTableOption(meaning, ", ".join(values), lambda value: value.lower() in values)


def _boolean(meaning: str) -> LakeTableOption:
    return _choice(meaning, "true", "false")


def _metrics(meaning: str) -> LakeTableOption:
    return LakeTableOption(meaning, "none, counts, full, truncate(1) to truncate(9999)", lambda value: bool(_METRICS_MODE.fullmatch(value)))


def _text(meaning: str) -> LakeTableOption:
    return LakeTableOption(meaning, "a text on one line", lambda value: True)


_BY_CHANGE = {
    name: option
    for change in ("delete", "update", "merge")
    for name, option in (
        (f"write.{change}.mode", _choice(f"How {change.upper()} of an engine changes files.", "copy-on-write", "merge-on-read")),
        (f"write.{change}.isolation-level", _choice(f"Isolation level of {change.upper()} in an engine.", "serializable", "snapshot")),
    )
}

LAKE_TABLE_OPTIONS: Mapping[str, LakeTableOption] = {
    "comment": _text("Description of the lake table."),
    "write.target-file-size-bytes": _number(1, 64 * GIB, "Size at which a writer ends a data file."),
    "write.format.default": _choice("Format of data files.", "parquet"),
    "write.metadata.metrics.default": _metrics("Statistics that data files keep for each column."),
    f"write.metadata.metrics.column.{COLUMN}": _metrics("Statistics that data files keep for one column."),
    "write.metadata.metrics.max-inferred-column-defaults": _number(0, 100_000, "How many columns get statistics by default."),
    "write.metadata.previous-versions-max": _number(1, 100_000, "How many former metadata files the newest metadata file lists."),
    "write.metadata.delete-after-commit.enabled": _boolean(
        "Whether engines delete metadata files that the newest one no longer lists. Lakeward deletes them unless this is false."
    ),
    "write.metadata.compression-codec": _choice("Compression of metadata files that an engine writes.", "none", "gzip"),
    "write.object-storage.enabled": _boolean("Whether data files are spread over prefixes, which makes object stores faster."),
    "write.object-storage.partitioned-paths": _boolean("Whether paths of spread data files contain the partition."),
    "write.distribution-mode": _choice("How an engine distributes rows over its writers.", "none", "hash", "range"),
    "write.spark.fanout.enabled": _boolean("Whether Spark keeps files of many partitions open at once while it writes."),
    "write.delete.target-file-size-bytes": _number(1, 64 * GIB, "Size at which an engine ends a delete file."),
    "write.delete.granularity": _choice("Whether a delete file of an engine covers one data file or one partition.", "file", "partition"),
    **_BY_CHANGE,
    "write.parquet.compression-codec": _choice(
        "Compression of data files that an engine rewrites. Lakeward writes zstd.",
        "zstd",
        "snappy",
        "gzip",
        "lz4",
        "lz4_raw",
        "brotli",
        "uncompressed",
    ),
    "write.parquet.compression-level": _number(-7, 22, "Compression level of data files that an engine rewrites."),
    "write.parquet.row-group-size-bytes": _number(1 << 10, 2 * GIB, "Size of a row group in data files that an engine rewrites."),
    "write.parquet.row-group-limit": _number(1, MAX_COUNT, "Rows of a row group in data files that pyiceberg rewrites."),
    "write.parquet.page-size-bytes": _number(1 << 10, GIB, "Size of a page in data files that an engine rewrites."),
    "write.parquet.page-row-limit": _number(1, MAX_COUNT, "Rows of a page in data files that an engine rewrites."),
    "write.parquet.dict-size-bytes": _number(1 << 10, GIB, "Size of a dictionary in data files that an engine rewrites."),
    "write.parquet.bloom-filter-max-bytes": _number(1, GIB, "Size of a Bloom filter in data files that an engine rewrites."),
    f"write.parquet.bloom-filter-enabled.column.{COLUMN}": _boolean(
        "Whether data files that an engine rewrites have a Bloom filter for the column."
    ),
    "read.split.target-size": _number(1 << 10, 64 * GIB, "Bytes of data that one task of an engine reads."),
    "read.split.metadata-target-size": _number(1 << 10, 64 * GIB, "Bytes of metadata that one task of an engine reads."),
    "read.split.planning-lookback": _number(1, 100_000, "How many tasks an engine considers when it assigns a file to a task."),
    "read.split.open-file-cost": _number(0, 64 * GIB, "Bytes that an engine adds for opening a file when it balances tasks."),
    "read.parquet.vectorization.enabled": _boolean("Whether Spark reads Parquet files in vectorized batches."),
    "read.parquet.vectorization.batch-size": _number(1, 1_000_000, "Rows of one vectorized batch in Spark."),
    "commit.retry.num-retries": _number(
        0, 10_000, "How often an engine retries its commit. Lakeward's own commits do not use the commit.* options."
    ),
    "commit.retry.min-wait-ms": _number(0, 86_400_000, "Shortest wait of an engine before it retries its commit."),
    "commit.retry.max-wait-ms": _number(0, 86_400_000, "Longest wait of an engine before it retries its commit."),
    "commit.retry.total-timeout-ms": _number(0, 86_400_000, "Time after which an engine stops retrying its commit."),
    "commit.manifest.target-size-bytes": _number(1 << 10, GIB, "Size to which a commit of an engine merges manifests."),
    "commit.manifest.min-count-to-merge": _number(2, 100_000, "Number of manifests from which a commit of an engine merges them."),
    "commit.manifest-merge.enabled": _boolean("Whether commits of an engine merge manifests."),
    "history.expire.max-snapshot-age-ms": _number(1, TEN_YEARS_MS, "Engines and Lakeward always keep snapshots below this age."),
    "history.expire.min-snapshots-to-keep": _number(1, MAX_COUNT, "Engines and Lakeward always keep this many of the newest snapshots."),
    "history.expire.max-ref-age-ms": _number(1, (1 << 63) - 1, "Age at which a branch or tag expires. The tag of Lakeward never expires."),
    "gc.enabled": _boolean("Whether an engine may delete files of the table. If it is false, Lakeward expires no snapshots, either."),
}
"""The allowed options, by their names in the lake table."""

_REASONS: Mapping[str, str] = {
    "format-version": "Lakeward writes format version 2.",
    "py-io-impl": "It names code, which a table may not choose.",
    "write.py-location-provider.impl": "It names code, which a table may not choose.",
    "write.data.path": "The files of a lake table are below its own location.",
    "write.metadata.path": "The files of a lake table are below its own location.",
}


def check_text(name: str, value: str) -> None:
    """Raises InvalidArgument if name or value has a control character, such as a line break. Some files have one option per line."""
    if _CONTROL.search(name) or _CONTROL.search(value):
        raise InvalidArgument(
            f"the option {name[:60]!r} holds a control character", hint="Options are on one line: no tabs, no line breaks."
        )


def option_named(name: str) -> LakeTableOption | None:
    """Returns the option with this name in the lake table, also an option of a column; None if it is not allowed."""
    option = LAKE_TABLE_OPTIONS.get(name)
    if option is not None and COLUMN not in name:
        return option
    for pattern, of_column in LAKE_TABLE_OPTIONS.items():
        prefix = pattern.removesuffix(COLUMN)
        if prefix != pattern and name.startswith(prefix) and name != prefix:
            return of_column
    return None


def check_table_options(properties: Mapping[str, str]) -> None:
    """Raises InvalidArgument for an `iceberg.` option that is not allowed, or whose value is not allowed."""
    for name, value in properties.items():
        check_text(name, value)
        iceberg_name = name.removeprefix(PREFIX)
        if iceberg_name == name:
            continue
        option = option_named(iceberg_name)
        if option is None:
            raise InvalidArgument(f"the option {name!r} is not one that a table may have", hint=_hint(iceberg_name))
        if not option.accepts(value):
            raise InvalidArgument(f"the option {name!r} is {value[:60]!r}", hint=f"It may be: {option.values}.")


def allowed_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties of a lake table that are in the list and have an allowed value, whichever program set them."""
    return {name: value for name, value in properties.items() if _is_allowed(name, value)}


def lake_table_properties(table_options: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties of a lake table from its table's `iceberg.` options, without options that only older versions allowed."""
    return allowed_properties({name.removeprefix(PREFIX): value for name, value in table_options.items() if name.startswith(PREFIX)})


def _is_allowed(name: str, value: str) -> bool:
    option = option_named(name)
    return option is not None and not _CONTROL.search(name) and not _CONTROL.search(value) and option.accepts(value)


def _hint(name: str) -> str:
    reason = _REASONS.get(name)
    near = nearest_names(name, LAKE_TABLE_OPTIONS, 1)
    listed = "docs/options.md lists those that it may."
    return " ".join([*([reason] if reason else []), *([f"Did you mean {PREFIX}{near[0]}?"] if near and not reason else []), listed])
