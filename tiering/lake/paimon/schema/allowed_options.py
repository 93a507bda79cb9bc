"""The options that a Paimon lake table may have while Lakeward tiers to it. Pure.

The module lists allowed options, because new versions of Paimon bring new ones, which may change the rows that a merge or a reader yields,
where files are, or which snapshots expire. The names are those of Paimon's `CoreOptions` (1.5), and of its Flink and Spark connectors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

HARMLESS_VALUES: Mapping[str, tuple[str, ...]] = {
    "type": ("table",),
    "branch": ("main",),
    "bucket-function.type": ("default",),
    "data-file.prefix": ("data-",),
    "merge-engine": ("deduplicate",),
    "manifest.sidecar.enabled": ("false",),
    "deletion-vectors.enabled": ("false",),
    "deletion-vectors.modifiable": ("false",),
    "row-tracking.enabled": ("false",),
    "data-evolution.enabled": ("false",),
    "data-file.thin-mode": ("false",),
    "pk-clustering-override": ("false",),
    "clustering.incremental": ("false",),
    "chain-table.enabled": ("false",),
    "sequence.snapshot-ordering": ("false",),
    "ignore-delete": ("false",),
    "ignore-update-before": ("false",),
    "first-row.ignore-delete": ("false",),
    "deduplicate.ignore-delete": ("false",),
    "partial-update.ignore-delete": ("false",),
    "query-auth.enabled": ("false",),
    "scan.mode": ("default", "latest-full", "full"),
    "scan.ignore-corrupt-files": ("false",),
    "scan.ignore-lost-files": ("false",),
    "consumer.changelog-only": ("false",),
    "table-read.sequence-number.enabled": ("false",),
    "key-value.sequence_number.enabled": ("false",),
}
"""Options that may have only these values, which are mostly their defaults."""

_HARMLESS = frozenset(
    {
        "bucket",
        "bucket-key",
        "bucket-append-ordered",
        "path",
        "auto-create",
        "changelog-producer",
        "changelog-producer.row-deduplicate",
        "changelog-producer.row-deduplicate-ignore-fields",
        "changelog-producer.lookup-wait",
        "file.format",
        "file.format.per.level",
        "file.compression",
        "file.compression.per.level",
        "file.compression.zstd-level",
        "file.block-size",
        "file.suffix.include.compression",
        "continuous.discovery-interval",
        "sequence.field.sort-order",
        "sort-engine",
        "write-only",
        "write.compaction-skip",
        "scan.max-splits-per-task",
        "scan.manifest.parallelism",
        "scan.plan-sort-partition",
        "scan.plan-auto-tag-for-read.time-retained",
        "scan.parallelism",
        "scan.infer-parallelism",
        "scan.infer-parallelism.max",
        "scan.remove-normalize",
        "page-size",
        "cache-page-size",
        "target-file-size",
        "target-file-row-num",
        "num-levels",
        "async-file-write",
        "write-manifest-cache",
        "dynamic-partition-overwrite",
        "overwrite-upgrade",
        "delete.force-produce-changelog",
        "index-file-in-data-file-dir",
        "streaming-read-overwrite",
        "streaming-read-append-overwrite",
        "streaming-read-mode",
        "streaming.read.snapshot.delay",
        "consumer-id",
        "consumer.mode",
        "consumer.ignore-progress",
        "full-compaction.delta-commits",
        "clustering.columns",
        "clustering.strategy",
        "zorder.var-length-contribution",
        "local-merge-buffer-size",
        "file-reader-async-threshold",
        "file-operation.thread-num",
        "delete-file.thread-num",
        "force-lookup",
        "row-tracking.partition-group-on-commit",
        "deletion-vectors.bitmap64",
        "deletion-vectors.merge-on-read",
        "deletion-vector.index-file.target-size",
        "alter-column-null-to-not-null.disabled",
        "disable-explicit-type-casting",
        "add-column-before-partition",
    }
)
"""Options that affect only sizes, speed, or what engines do beside the rows."""

_HARMLESS_GROUPS = (
    "fluss.",
    "snapshot.",
    "changelog.",
    "changelog-file.",
    "manifest.",
    "manifest-sort.",
    "file-index.",
    "compaction.",
    "num-sorted-run.",
    "sort-spill-",
    "spill-",
    "sort-compaction.",
    "source.",
    "sink.",
    "write.",
    "write-buffer-",
    "write-max-",
    "local-sort.",
    "commit.",
    "tag.",
    "metastore.",
    "metadata.",
    "partition.",
    "end-input.",
    "lookup.",
    "lookup-",
    "dynamic-bucket.",
    "postpone.",
    "read.",
    "cross-partition-upsert.",
    "unaware-bucket.",
    "visibility-callback.",
    "parquet.",
    "orc.",
    "avro.",
    "flink.",
    "spark.",
    "hive.",
    "lakeward.",
)
"""Prefixes of allowed groups of options. `partition.` includes the expiry of partitions: rows that a user deletes on purpose."""

_LABEL = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
"""Names of a user's own properties, such as `owner`. A name of Paimon's has a dot or a hyphen, except for those listed here."""

_RESTORED_BY_REMOVAL = frozenset({"consumer.expiration-time", "consumer.changelog-only", "query-auth.enabled"})
"""Refused options that have changed no rows: without them the table is as it was before. That also holds for options of where a scan
begins.
"""


@dataclass(frozen=True)
class RefusedOption:
    """An option with which Lakeward does not tier. `is_removable`: removing it restores the table's former state."""

    name: str
    value: str
    is_removable: bool


def refused_option(options: Mapping[str, str]) -> RefusedOption | None:
    """Returns the first option, by name, that a lake table may not have."""
    for name, value in sorted(options.items()):
        if not _is_harmless(name, value):
            return RefusedOption(name, value, name in _RESTORED_BY_REMOVAL or name.startswith(("scan.", "incremental-between")))
    return None


def _is_harmless(name: str, value: str) -> bool:
    if name in HARMLESS_VALUES:
        return value.lower() in HARMLESS_VALUES[name]
    return name in _HARMLESS or name.startswith(_HARMLESS_GROUPS) or _LABEL.fullmatch(name) is not None
