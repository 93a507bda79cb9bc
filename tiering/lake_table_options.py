"""The `iceberg.<name>` options of a table: those that reach its lake table as `<name>`, and what each may be. Pure.

A list of what is allowed, and nothing else: pyiceberg imports and calls the class that some table properties name
(`py-io-impl`, `write.py-location-provider.impl`), writes where others say (`write.data.path`, `write.metadata.path`), and
sends the storage's credentials where again others point (`s3.endpoint`). What is listed changes sizes, statistics, and how
engines read and rewrite. Checked when a table is made or altered, and again where a lake table's properties are used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tiering.errors import InvalidArgument
from tiering.name_matching import nearest_names
from tiering.public_properties import TABLE_OPTIONS

PREFIX = "iceberg."
COLUMN = "<column>"
"""Stands for the name of a column, at the end of an option's name."""

HIDDEN_VALUE = "***"
"""In place of a value that may be a secret."""

_PUBLIC_NAMES = ("bucket.key", "bucket.num", "comment")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,19}")
_METRICS_MODE = re.compile(r"none|counts|full|truncate\(([1-9][0-9]{0,3})\)", re.IGNORECASE)

GIB = 1 << 30
TEN_YEARS_MS = 3_652 * 86_400_000
MAX_COUNT = (1 << 31) - 1


@dataclass(frozen=True)
class LakeTableOption:
    """`values` says what the value may be, for people; `accepts` decides."""

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
        (f"write.{change}.mode", _choice(f"How an engine's {change.upper()} changes files.", "copy-on-write", "merge-on-read")),
        (f"write.{change}.isolation-level", _choice(f"Isolation of an engine's {change.upper()}.", "serializable", "snapshot")),
    )
}

LAKE_TABLE_OPTIONS: Mapping[str, LakeTableOption] = {
    "comment": _text("What the lake table is for."),
    "write.target-file-size-bytes": _number(1, 64 * GIB, "A data file ends at this size."),
    "write.format.default": _choice("Format of data files.", "parquet"),
    "write.metadata.metrics.default": _metrics("Statistics that are kept of each column."),
    f"write.metadata.metrics.column.{COLUMN}": _metrics("The same of one column."),
    "write.metadata.metrics.max-inferred-column-defaults": _number(0, 100_000, "Columns that get statistics without being named."),
    "write.metadata.previous-versions-max": _number(1, 100_000, "Former metadata files that the newest one names."),
    "write.metadata.delete-after-commit.enabled": _boolean(
        "Whether engines delete metadata files that the newest one no longer names. Lakeward deletes them unless it is false."
    ),
    "write.metadata.compression-codec": _choice("Of an engine's metadata files.", "none", "gzip"),
    "write.object-storage.enabled": _boolean("Spread data files over prefixes, as object stores like it."),
    "write.object-storage.partitioned-paths": _boolean("Whether such paths show the partition."),
    "write.distribution-mode": _choice("How an engine sorts rows to its writers.", "none", "hash", "range"),
    "write.spark.fanout.enabled": _boolean("Whether Spark writes to many partitions at once."),
    "write.delete.target-file-size-bytes": _number(1, 64 * GIB, "A delete file of an engine ends at this size."),
    "write.delete.granularity": _choice("What a delete file of an engine is about.", "file", "partition"),
    **_BY_CHANGE,
    "write.parquet.compression-codec": _choice(
        "Of files that an engine rewrites; Lakeward's own are zstd.", "zstd", "snappy", "gzip", "lz4", "lz4_raw", "brotli", "uncompressed"
    ),
    "write.parquet.compression-level": _number(-7, 22, "Of files that an engine rewrites."),
    "write.parquet.row-group-size-bytes": _number(1 << 10, 2 * GIB, "Of files that an engine rewrites."),
    "write.parquet.row-group-limit": _number(1, MAX_COUNT, "Rows of a row group in files that pyiceberg rewrites."),
    "write.parquet.page-size-bytes": _number(1 << 10, GIB, "Of files that an engine rewrites."),
    "write.parquet.page-row-limit": _number(1, MAX_COUNT, "Of files that an engine rewrites."),
    "write.parquet.dict-size-bytes": _number(1 << 10, GIB, "Of files that an engine rewrites."),
    "write.parquet.bloom-filter-max-bytes": _number(1, GIB, "Of files that an engine rewrites."),
    f"write.parquet.bloom-filter-enabled.column.{COLUMN}": _boolean("Of files that an engine rewrites."),
    "read.split.target-size": _number(1 << 10, 64 * GIB, "Bytes that an engine's task reads."),
    "read.split.metadata-target-size": _number(1 << 10, 64 * GIB, "The same of metadata."),
    "read.split.planning-lookback": _number(1, 100_000, "Tasks among which an engine finds room for a file."),
    "read.split.open-file-cost": _number(0, 64 * GIB, "Bytes that opening a file counts as."),
    "read.parquet.vectorization.enabled": _boolean("Whether Spark reads column by column."),
    "read.parquet.vectorization.batch-size": _number(1, 1_000_000, "Rows that Spark reads at a time."),
    "commit.retry.num-retries": _number(0, 10_000, "Commits of others; Lakeward's own have rules of their own."),
    "commit.retry.min-wait-ms": _number(0, 86_400_000, "Of commits of others."),
    "commit.retry.max-wait-ms": _number(0, 86_400_000, "Of commits of others."),
    "commit.retry.total-timeout-ms": _number(0, 86_400_000, "Of commits of others."),
    "commit.manifest.target-size-bytes": _number(1 << 10, GIB, "Of commits of others."),
    "commit.manifest.min-count-to-merge": _number(2, 100_000, "Of commits of others."),
    "commit.manifest-merge.enabled": _boolean("Of commits of others."),
    "history.expire.max-snapshot-age-ms": _number(1, TEN_YEARS_MS, "What expiry keeps at least, an engine's and Lakeward's."),
    "history.expire.min-snapshots-to-keep": _number(1, MAX_COUNT, "What expiry keeps at least, an engine's and Lakeward's."),
    "history.expire.max-ref-age-ms": _number(1, (1 << 63) - 1, "How old a branch or tag gets; the tag of Lakeward never expires."),
    "gc.enabled": _boolean("Whether an engine may delete files of the table. False: Lakeward expires nothing, either."),
}
"""By the name that they have in the lake table."""

_REASONS: Mapping[str, str] = {
    "format-version": "Lakeward writes format version 2.",
    "py-io-impl": "It names code; no table does.",
    "write.py-location-provider.impl": "It names code; no table does.",
    "write.data.path": "The files of a lake table lie under its own location.",
    "write.metadata.path": "The files of a lake table lie under its own location.",
}


def check_text(name: str, value: str) -> None:
    """Raises InvalidArgument if name or value has a control character, such as the end of a line: they are written into files by line."""
    if _CONTROL.search(name) or _CONTROL.search(value):
        raise InvalidArgument(
            f"the option {name[:60]!r} holds a control character", hint="Options are on one line: no tabs, no line breaks."
        )


def option_named(name: str) -> LakeTableOption | None:
    """The option with that name in the lake table, also one of a column; None: not allowed."""
    option = LAKE_TABLE_OPTIONS.get(name)
    if option is not None and COLUMN not in name:
        return option
    for pattern, of_column in LAKE_TABLE_OPTIONS.items():
        prefix = pattern.removesuffix(COLUMN)
        if prefix != pattern and name.startswith(prefix) and name != prefix:
            return of_column
    return None


def check_table_options(properties: Mapping[str, str]) -> None:
    """Raises InvalidArgument for an `iceberg.` option that no table may have, or with a value that it cannot have."""
    for name, value in properties.items():
        check_text(name, value)
        own = name.removeprefix(PREFIX)
        if own == name:
            continue
        option = option_named(own)
        if option is None:
            raise InvalidArgument(f"the option {name!r} is not one that a table may have", hint=_hint(own))
        if not option.accepts(value):
            raise InvalidArgument(f"the option {name!r} is {value[:60]!r}", hint=f"It may be: {option.values}.")


def allowed_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Those properties of a lake table, by whomever, that are listed here with a value that they can have."""
    return {name: value for name, value in properties.items() if _is_allowed(name, value)}


def lake_table_properties(table_options: Mapping[str, str]) -> dict[str, str]:
    """What a table's `iceberg.` options make of its lake table. One that older versions took and that is not allowed is left out."""
    return allowed_properties({name.removeprefix(PREFIX): value for name, value in table_options.items() if name.startswith(PREFIX)})


def public_options(table_options: Mapping[str, str]) -> dict[str, str]:
    """A table's options whose values everybody may see: those with a meaning here. Any other may be a secret of its owner's."""
    return {
        name: value
        for name, value in table_options.items()
        if name in _PUBLIC_NAMES or name in TABLE_OPTIONS or (name.startswith(PREFIX) and option_named(name.removeprefix(PREFIX)))
    }


def shown_options(table_options: Mapping[str, str]) -> dict[str, str]:
    """A table's options as everybody may see them: all names, and the values of public ones."""
    return {**dict.fromkeys(table_options, HIDDEN_VALUE), **public_options(table_options)}


def _is_allowed(name: str, value: str) -> bool:
    option = option_named(name)
    return option is not None and not _CONTROL.search(name) and not _CONTROL.search(value) and option.accepts(value)


def _hint(name: str) -> str:
    reason = _REASONS.get(name)
    near = nearest_names(name, LAKE_TABLE_OPTIONS, 1)
    listed = "docs/options.md lists those that it may."
    return " ".join([*([reason] if reason else []), *([f"Did you mean {PREFIX}{near[0]}?"] if near and not reason else []), listed])
