"""Options of a Paimon lake table: what may change rows, places or expiry is refused, also if no version of Paimon has it yet."""

from __future__ import annotations

import pytest
from pypaimon.common.options.core_options import CoreOptions

from tiering.lake.paimon.schema.allowed_options import HARMLESS_VALUES, refused_option

HARMLESS = {
    "bucket": "4",
    "bucket-key": "id",
    "changelog-producer": "lookup",
    "compaction.min.file-num": "3",
    "fluss.table.datalake.freshness": "1 min",
    "file.compression": "lz4",
    "manifest.merge-min-count": "10",
    "num-sorted-run.compaction-trigger": "3",
    "owner": "ada",
    "partition.expiration-time": "30 d",
    "snapshot.time-retained": "1 d",
    "target-file-size": "64 mb",
    "write-buffer-size": "64 mb",
    "write-only": "true",
}
CHANGES_ROWS = [
    ("ignore-delete", "true"),
    ("deduplicate.ignore-delete", "true"),
    ("first-row.ignore-delete", "TRUE"),
    ("record-level.expire-time", "1 d"),
    ("bucket-function.type", "mod"),
    ("sequence.field", "text"),
    ("sequence.snapshot-ordering", "true"),
    ("fields.text.default-value", "none"),
    ("merge-engine", "first-row"),
    ("rowkind.field", "kind"),
    ("data-file.external-paths", "s3://elsewhere"),
    ("blob-field", "text"),
    ("an-option.of-a-later-version", "1"),
]
CHANGES_NO_ROW = [
    ("consumer.expiration-time", "1 h"),
    ("consumer.changelog-only", "true"),
    ("scan.snapshot-id", "1"),
    ("scan.mode", "from-snapshot"),
    ("incremental-between", "1,2"),
]


def test_sizes_speed_and_upkeep_are_the_users() -> None:
    assert refused_option(HARMLESS) is None
    assert refused_option({name: values[0] for name, values in HARMLESS_VALUES.items()}) is None


@pytest.mark.parametrize(("name", "value"), CHANGES_ROWS)
def test_what_may_change_rows_is_refused(name: str, value: str) -> None:
    refused = refused_option({**HARMLESS, name: value})
    assert refused is not None
    assert (refused.name, refused.value, refused.is_removable) == (name, value, False)


@pytest.mark.parametrize(("name", "value"), CHANGES_NO_ROW)
def test_without_what_changed_no_row_the_table_is_as_it_was(name: str, value: str) -> None:
    refused = refused_option({**HARMLESS, name: value})
    assert refused is not None
    assert (refused.name, refused.is_removable) == (name, True)


def test_no_option_of_pypaimon_that_changes_rows_is_taken_for_harmless() -> None:
    """A new version of pypaimon brings options: each name that is allowed here was looked at."""
    names = {option.key() for option in vars(CoreOptions).values() if hasattr(option, "key")}
    assert len(names) > 30
    allowed = {name for name in names if refused_option({name: "anything"}) is None}
    assert {"ignore-delete", "merge-engine", "deletion-vectors.enabled", "record-level.expire-time"}.isdisjoint(allowed)
