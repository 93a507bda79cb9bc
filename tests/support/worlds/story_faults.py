"""The faults that stories of a whole deployment meet, a line each."""

from __future__ import annotations

import errno

from support.worlds.stories import odd_values
from support.worlds.stories.story import Inject, Story, StoryFault

EVERY = frozenset({"iceberg", "paimon"})
ICEBERG, PAIMON = frozenset({"iceberg"}), frozenset({"paimon"})
HERE = "tests/faults/stories/test_faults.py::"


def fault(name: str, description: str, handled_by: str, held_by: str, inject: Inject, formats: frozenset[str] = EVERY) -> StoryFault:
    """A fault of the stories."""
    return StoryFault(name, description, "stories", handled_by, held_by, inject, formats)


FAULTS = (
    fault("lake-write-fails", "A file of the lake cannot be opened for writing.", "lake_errors", "", lambda s: s.fail_files("write")),
    fault(
        "lake-write-answer-lost",
        "A file of the lake is made, and its writer hears of an error.",
        "lake_errors",
        "",
        lambda s: s.fail_files("write", after=True),
    ),
    fault("lake-read-fails", "A file of the lake cannot be read.", "lake_errors", "", lambda s: s.fail_files("read")),
    fault("lake-list-fails", "A folder of the lake cannot be listed.", "lake_errors", "", lambda s: s.fail_files("list"), PAIMON),
    fault("lake-link-fails", "A file of the lake does not get its name.", "resolve_commit", "", lambda s: s.fail_files("link"), PAIMON),
    fault(
        "lake-link-answer-lost",
        "A file of the lake gets its name, and its writer hears of an error.",
        "resolve_commit",
        "",
        lambda s: s.fail_files("link", after=True),
        PAIMON,
    ),
    fault("lake-fsync-fails", "A file or folder of the lake cannot be synced.", "durable_files", "", lambda s: s.fail_files("fsync")),
    fault(
        "lake-fsync-answer-lost",
        "A file or folder of the lake is synced, and its writer hears of an error.",
        "durable_files",
        "",
        lambda s: s.fail_files("fsync", after=True),
    ),
    fault(
        "lake-out-of-space",
        "There is no space for another file of the lake.",
        "lake_errors",
        "",
        lambda s: s.fail_files("write", code=errno.ENOSPC),
    ),
    fault("disk-full", "No file grows beyond some bytes, half-written ones are left.", "lake_errors, StoreError", "", Story.fill_disk),
    fault(
        "catalog-unavailable",
        "The catalog answers 503 instead of committing.",
        "resolve_commit",
        "",
        lambda s: s.answer_unavailable(lands=False),
    ),
    fault(
        "catalog-unavailable-after-commit",
        "The catalog answers 503 after it committed.",
        "resolve_commit",
        "",
        lambda s: s.answer_unavailable(lands=True),
    ),
    fault(
        "catalog-hangs",
        "A commit request lands when the table was long given to somebody else.",
        "compare-and-set; the tag",
        "",
        Story.hang_catalog,
    ),
    fault("panic-in-task", "A library panics in a task, with a BaseException.", "run_split", "", Story.panic_in_task),
    fault(
        "panic-in-commit",
        "A library panics in the commit request, before or after its effect.",
        "any error means unknown",
        "",
        Story.panic_in_commit,
    ),
    fault(
        "tierer-asleep-in-round", "A tierer sleeps through the service timeout, and goes on.", "epochs; the tag", "", Story.sleep_in_round
    ),
    fault(
        "coordinator-restarted-in-round", "The coordinator ends under a round.", "coordinator epoch", "", Story.restart_coordinator_in_round
    ),
    fault(
        "cluster-restarted-in-round",
        "Cluster and coordinator end under a round.",
        "writers and sequences",
        "",
        Story.restart_cluster_in_round,
    ),
    fault(
        "foreign-append-in-round",
        "Somebody appends to the lake table between two steps of a round.",
        "compare-and-set on head",
        "",
        Story.append_in_round,
    ),
    fault(
        "foreign-delete-in-round",
        "Somebody deletes rows of the lake table between two steps of a round.",
        "compare-and-set on head",
        "",
        Story.delete_in_round,
    ),
    fault(
        "foreign-compaction-in-round",
        "Somebody compacts the lake table between two steps of a round.",
        "compare-and-set on head",
        "",
        Story.compact_in_round,
    ),
    fault(
        "files-rewritten-under-deletes",
        "Files that a round's position deletes name are rewritten before its commit.",
        "BaseMoved",
        "",
        Story.compact_under_deletes,
    ),
    fault(
        "orphans-cleaned-up-in-round",
        "A clean-up takes a round's files before its commit names them.",
        "_check_present",
        "",
        Story.clean_up_orphans,
    ),
    fault("lake-table-dropped", "Somebody drops the lake table.", "check_base", "", Story.drop_lake_table),
    fault("lake-table-renamed", "Somebody renames the lake table.", "check_base", "", Story.rename_lake_table),
    fault("lake-table-recreated", "Another lake table without rows stands where ours was.", "check_base", "", Story.recreate_lake_table),
    fault(
        "lake-table-of-others",
        "A lake table of somebody else, with other columns, stands where ours was.",
        "check_base",
        "",
        Story.replace_with_another_schema,
    ),
    fault("lake-rolled-back", "Somebody rolls the lake table back.", "check_history", "", Story.roll_back),
    fault("tag-removed", "Somebody removes the tag of the newest tiering commit.", "check_base", "", Story.remove_tags, ICEBERG),
    fault("snapshots-expired", "All snapshots of the lake table expire that may.", "passed_head; the consumer", "", Story.expire),
    fault("parents-expired", "The snapshots between the marker and the head expire.", "passed_head", "", Story.expire_behind_a_compaction),
    fault("lake-compacted", "Somebody compacts the lake table between two rounds.", "check_history", "", Story.compact),
    fault("lake-column-dropped", "Somebody drops a column of the lake table.", "check_drift", "", Story.drop_lake_column),
    fault("lake-column-renamed", "Somebody renames a column of the lake table.", "check_drift", "", Story.rename_lake_column),
    fault("data-file-removed", "A data file of the lake is gone.", "validate", "", lambda s: s.damage_data_file(s.gone)),
    fault("data-file-cut", "A data file of the lake lost its end.", "validate", "", lambda s: s.damage_data_file(s.cut)),
    fault("data-file-flipped", "A bit of a data file of the lake is another one.", "validate", "", lambda s: s.damage_data_file(s.flipped)),
    fault("manifest-missing", "A manifest or a list of manifests is gone.", "lake_errors", "", Story.remove_manifest),
    fault("metadata-missing", "The lake table's newest metadata is gone.", "lake_errors", "", lambda s: s.damage_metadata(s.gone)),
    fault("metadata-cut", "The lake table's newest metadata lost its end.", "lake_errors", "", lambda s: s.damage_metadata(s.cut)),
    fault(
        "column-added-in-round",
        "A column is added at the source between two steps of a round.",
        "SourceChanged",
        "",
        Story.add_column_in_round,
    ),
    fault(
        "partition-made-anew-in-round",
        "A partition is dropped, and one of its name comes, between two steps of a round.",
        "partition ids",
        "",
        Story.drop_partition_in_round,
    ),
    fault(
        "table-made-anew-in-round",
        "A table is dropped, and one of its name comes, between two steps of a round.",
        "table ids",
        "",
        Story.recreate_in_round,
    ),
    fault(
        "lake-switched-off-in-round",
        "A table's lake is disabled between two steps of a round.",
        "round_lifecycle",
        "",
        Story.switch_off_in_round,
    ),
    fault("segment-torn", "A segment of the log lost its end.", "DataCorrupt", "", Story.damage_segment),
    fault("kv-snapshot-missing", "A file of a KV snapshot is gone.", "KvSnapshotGone", "", Story.remove_kv_snapshot),
    fault("kv-state-lost", "The present rows of a primary-key table are lost.", "catch_up", "", Story.lose_kv_state),
    fault("leases-expired-in-round", "A round's KV snapshots are deleted before it reads them.", "KvSnapshotGone", "", Story.expire_leases),
    fault("store-restored", "The coordinator starts on an older copy of its store.", "adopt if the lake is ahead", "", Story.restore_store),
    fault("clock-ahead", "The wall clock is set years ahead.", "deadlines on the monotonic clock", "", lambda s: s.set_clock(3_650)),
    fault("clock-back", "The wall clock is set back.", "deadlines on the monotonic clock", "", lambda s: s.set_clock(-300)),
    fault("decimal-keys", "Keys are decimals of any width.", "bucketing", "", lambda s: s.write_odd_values(odd_values.decimal_keys)),
    fault(
        "far-dates",
        "Dates and timestamps lie outside of the years 1 to 9999.",
        "fit_rows",
        "",
        lambda s: s.write_odd_values(odd_values.far_dates),
    ),
    fault("odd-floats", "Values are NaN, infinite or -0.0.", "row_checksum", "", lambda s: s.write_odd_values(odd_values.odd_floats)),
    fault(
        "text-keys",
        "Keys are empty, huge or full of signs that mean something elsewhere.",
        "bucketing",
        "",
        lambda s: s.write_odd_values(odd_values.text_keys),
    ),
    fault(
        "nested-nulls",
        "NULLs stand at every depth of nested values.",
        "fit_rows",
        "",
        lambda s: s.write_odd_values(odd_values.nested_nulls),
    ),
    fault("map-keys-repeated", "A map has a key twice.", "check_map_keys", "", lambda s: s.write_odd_values(odd_values.repeated_map_keys)),
)
