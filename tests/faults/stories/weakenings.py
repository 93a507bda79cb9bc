"""For each fault of the stories: the function or guard that handles it, and its removal.

Of some faults the story itself tells that their handling is missing. Most have several guards behind each other, so that the story goes on
without one of them: there it is the test of that guard (`Fault.held_by`) that fails.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from faults.simulated.weakenings import (
    acks_nothing,
    by_the_wall_clock,
    discovered_anew,
    lets_panics_through,
    nothing,
    passes_an_expired_history,
    same_base,
    stores_nothing,
)

from support.worlds.stories.faulty_rounds import LibraryPanic
from tiering.cluster.embedded.log.appends import EarlierWrite, earlier_write
from tiering.errors import DataCorrupt, HistoryExpired, InvalidData, KvSnapshotGone, LakeUnavailable, LakewardError, RoundFailed
from tiering.lake.base import LakeView
from tiering.lake.iceberg.commit.staging import AssertRefSnapshotId, SnapshotStager
from tiering.lake.iceberg.errors import lake_errors
from tiering.lake.rules import history
from tiering.lake.rules.base_check import Base, CommitOutcome, ResolvedCommit
from tiering.lake.schema.sql_text import quoted

Weaken = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Weakening:
    """`weaken` takes out what handles `fault`."""

    fault: str
    weaken: Weaken
    times: int = 0
    """How often the fault happens in the story that fails then; 0 = another test does (`Fault.held_by`)."""
    skipped_seeds: int = 0
    """Number of seeds in whose stories the fault has no effect without the part, because it happens where it does no harm."""
    variant: str = ""
    """Which of the parameters of that test; none = all of them fail."""
    fails_with: type[BaseException] = AssertionError
    """How the story or that test ends: what the broken promise raises, unless an expected error is not raised."""


def without(*targets: str, by: Any = nothing) -> Weaken:
    """Puts `by` in the place of each of `targets`."""

    def weaken(patch: pytest.MonkeyPatch) -> None:
        for target in targets:
            patch.setattr(target, by)

    return weaken


# errors of libraries


def of_errors_of_libraries(patch: pytest.MonkeyPatch) -> None:
    for lake_format in ("iceberg", "paimon"):
        for known in ("_OUTSIDE", "_DAMAGED"):
            patch.setattr(f"tiering.lake.{lake_format}.errors.{known}", ())


def of_errors_of_the_system(patch: pytest.MonkeyPatch) -> None:
    """Neither the lake nor a split tells what the operating system says from a defect."""
    of_errors_of_libraries(patch)
    patch.setattr("tiering.round.tasks.split_work.OSError", (), raising=False)


def of_panics(patch: pytest.MonkeyPatch) -> None:
    def raise_again(error: BaseException) -> LakewardError:
        raise error

    patch.setattr("tiering.round.tasks.split_work.as_lakeward_error", raise_again)
    patch.setattr("tiering.round.runner.RoundRunner._carry_out", lets_panics_through)


# commits


def finds_nothing(view: LakeView | None, round_id: str, base: Base) -> ResolvedCommit:
    """Does not look for its own round id."""
    return ResolvedCommit(CommitOutcome.NOT_FOUND)


def requires_no_references(stager: SnapshotStager) -> tuple[Any, ...]:
    """Without the compare-and-set on head and tag."""
    return tuple(requirement for requirement in _requirements(stager) if not isinstance(requirement, AssertRefSnapshotId))


_requirements = SnapshotStager._requirements
COMMITTERS = ("tiering.lake.iceberg.commit.committer.", "tiering.lake.paimon.commit.committer.")
FILES_STAY = without(*(committer + "check_none_missing" for committer in COMMITTERS))
ERRORS_ARE_REFUSALS = without("tiering.lake.rules.commit_check.CommitOutcomeUnknown", by=RoundFailed)
"""After an error of its request a committer says that nothing was committed."""


def deletes_what_an_error_left(patch: pytest.MonkeyPatch) -> None:
    """Deletes the files of a round after an error, even if its commit request was sent."""
    ERRORS_ARE_REFUSALS(patch)
    patch.setattr("tiering.lake.writing.sent_rounds.SentRounds.has", lambda *_: False)


STEPS = "tiering.round.steps.steps_to_commit."

# bases


def remembers_no_head(view: LakeView, tiered: int, passed_head: int | None) -> None:
    _check_history(view, tiered, None)


_check_history = history.check_history


def walks_no_history(view: LakeView, tiered: int, passed_head: int | None) -> None:
    """Believes the tag alone."""
    if view.head != tiered:
        raise history.rolled_back(view, tiered, "it is not its head")


BASE_CHECK = "tiering.lake.rules.base_check."

# what is written, and what is compared


def tells_no_damage(location: str) -> Any:
    return lake_errors(f"read {location}", lake_file=location)


def hashes_nested_values(self: Any, *columns: str) -> str:
    return f"hash({', '.join(map(quoted, columns))})"


DATA_FILES = "tiering.lake.iceberg.writing.data_files."
# the coordinator and the embedded cluster


def runs_whatever_it_is(record: Any, ref: Any) -> bool:
    """Takes a report of any round for one of the running round."""
    return record is not None and record.running is not None


def remembers_dropped_partitions(connection: Any, key: Any) -> EarlierWrite | None:
    """Takes a write for repeated though a partition of it was dropped since."""
    earlier = earlier_write(connection, key)
    return None if earlier is None else EarlierWrite(earlier.ranges, earlier.kept)


TABLES = "tiering.coordinator.decisions.table_lifecycle."
EMBEDDED = "tiering.cluster.embedded."
KV = EMBEDDED + "kv."

WEAKENINGS = (
    Weakening("lake-write-fails", of_errors_of_libraries, fails_with=OSError),
    Weakening("lake-write-answer-lost", without(COMMITTERS[0] + "IcebergCommitter._delete")),
    Weakening("lake-read-fails", of_errors_of_libraries, fails_with=OSError),
    Weakening("lake-list-fails", of_errors_of_libraries, times=1, skipped_seeds=8),
    Weakening("lake-link-fails", ERRORS_ARE_REFUSALS, variant="[paimon-system-columns-link fails]"),
    Weakening("lake-link-answer-lost", without(STEPS + "resolve_commit", by=finds_nothing), variant="[paimon-clean-answer lost]"),
    Weakening("lake-fsync-fails", without("tiering.lake.iceberg.catalogs.file_io._SyncedWriter.close", by=io.BufferedWriter.close)),
    Weakening("lake-fsync-answer-lost", ERRORS_ARE_REFUSALS, fails_with=RoundFailed),
    Weakening("lake-out-of-space", of_errors_of_libraries, fails_with=OSError),
    Weakening("disk-full", of_errors_of_the_system, variant="[iceberg-clean]"),
    Weakening("catalog-unavailable", without(STEPS + "COMMIT_ATTEMPTS", by=1)),
    Weakening("catalog-unavailable-after-commit", deletes_what_an_error_left, times=1, fails_with=FileNotFoundError),
    Weakening("catalog-hangs", without("tiering.lake.paimon.commit.committer._check_head")),
    Weakening("panic-in-task", of_panics, times=1, fails_with=LibraryPanic),
    Weakening("panic-in-commit", ERRORS_ARE_REFUSALS, fails_with=RoundFailed),
    Weakening("tierer-asleep-in-round", without("tiering.coordinator.decisions.round_lifecycle.is_current", by=runs_whatever_it_is)),
    Weakening("coordinator-restarted-in-round", without("tiering.coordinator.memory.table_records.TableRecords._apply", by=stores_nothing)),
    Weakening("cluster-restarted-in-round", without(EMBEDDED + "metadata.lease_rows.rebase"), fails_with=KvSnapshotGone),
    Weakening(
        "foreign-append-in-round", without("tiering.lake.iceberg.commit.staging.SnapshotStager._requirements", by=requires_no_references)
    ),
    Weakening("foreign-delete-in-round", without(STEPS + "check_same_base", by=same_base), variant="[iceberg-clean-CommitLake]"),
    Weakening("foreign-compaction-in-round", without(STEPS + "check_same_base", by=same_base)),
    Weakening("files-rewritten-under-deletes", without(COMMITTERS[0] + "replaced_partitions", by=lambda *_: frozenset())),
    Weakening("orphans-cleaned-up-in-round", FILES_STAY, times=5, fails_with=FileNotFoundError),
    Weakening("lake-table-dropped", without(BASE_CHECK + "_check_absent")),
    Weakening("lake-table-renamed", without(BASE_CHECK + "_check_absent")),
    Weakening("lake-table-recreated", without(BASE_CHECK + "_check_uuid")),
    Weakening("lake-table-of-others", without(BASE_CHECK + "_check_uuid")),
    Weakening(
        "lake-rolled-back", without(*(BASE_CHECK + check for check in ("check_history", "_check_not_ahead", "_check_untiered"))), times=1
    ),
    Weakening("tag-removed", without(*(BASE_CHECK + check for check in ("_check_not_ahead", "_check_untiered"))), times=1),
    Weakening("snapshots-expired", without(BASE_CHECK + "check_history", by=passes_an_expired_history)),
    Weakening("parents-expired", without(BASE_CHECK + "check_history", by=remembers_no_head), fails_with=HistoryExpired),
    Weakening("lake-compacted", without(BASE_CHECK + "check_history", by=walks_no_history), variant="[embedded-primary key]"),
    Weakening("lake-column-dropped", without("tiering.lake.iceberg.lake.check_drift", "tiering.lake.paimon.lake.check_drift"), times=1),
    Weakening("lake-column-renamed", without("tiering.lake.iceberg.lake.check_drift", "tiering.lake.paimon.lake.check_drift"), times=1),
    Weakening("data-file-removed", of_errors_of_libraries, variant="[iceberg-clean-remove-region and id]"),
    Weakening(
        "data-file-cut",
        without("tiering.lake.iceberg.reading.lake_parquet._read_errors", by=tells_no_damage),
        variant="[iceberg-clean-cut-region and id]",
    ),
    Weakening("data-file-flipped", without("tiering.validate.log_checks.check_rows")),
    Weakening("manifest-missing", of_errors_of_libraries, times=1, fails_with=FileNotFoundError),
    Weakening("metadata-missing", of_errors_of_libraries, fails_with=OSError),
    Weakening("metadata-cut", of_errors_of_libraries, times=1),
    Weakening("column-added-in-round", without(EMBEDDED + "log.split_reader._check_columns")),
    Weakening("partition-made-anew-in-round", without(EMBEDDED + "log.segments._is_dropped", by=lambda *_: False), fails_with=DataCorrupt),
    Weakening("table-made-anew-in-round", without(TABLES + "drop"), times=1),
    Weakening("lake-switched-off-in-round", without(TABLES + "discover", by=discovered_anew)),
    Weakening("segment-torn", without(EMBEDDED + "stored_paths.check_whole")),
    Weakening(
        "kv-snapshot-missing",
        without(KV + "primary_key_tables.PrimaryKeyTables._files_exist", by=lambda *_: True),
        fails_with=KvSnapshotGone,
    ),
    Weakening("kv-state-lost", without(KV + "primary_key_tables.catch_up"), variant="[True-_lost]"),
    Weakening(
        "leases-expired-in-round",
        without(KV + "snapshot_files.KvSnapshotGone", by=DataCorrupt),
        variant="[embedded]",
    ),
    Weakening("store-restored", without("tiering.round.steps.steps_to_write.base_read", by=acks_nothing)),
    Weakening("clock-ahead", without(TABLES + "within_reach", by=lambda _, record: record)),
    Weakening("clock-back", without("tiering.coordinator.decisions.moment.Timebase.now", by=by_the_wall_clock), times=1),
    Weakening("decimal-keys", without("tiering.library_guards.bucket_hash.aligned", by=lambda column: column), fails_with=InvalidData),
    Weakening("far-dates", without(DATA_FILES + "_is_readable", by=lambda _: True), fails_with=LakeUnavailable),
    Weakening("odd-floats", without(DATA_FILES + "_unbounded", by=lambda *_: {})),
    Weakening(
        "text-keys", without(DATA_FILES + "_has_bounds", by=lambda _: True), variant="[before the surrogates]", fails_with=LakeUnavailable
    ),
    Weakening("nested-nulls", without("tiering.validate.engine.Engine.hash_of", by=hashes_nested_values), variant="[list]"),
    Weakening("map-keys-repeated", without("tiering.cluster.rows.check_map_keys"), times=1),
    Weakening("cluster-restored", without("tiering.round.steps.steps_to_write.check_same_log"), times=1),
    Weakening("lake-table-forgotten", without("tiering.coordinator.server.coordinator.lake_is_confirmed", by=lambda *_: True), times=1),
    Weakening("write-repeated-after-drop", without(EMBEDDED + "log.log.earlier_write", by=remembers_dropped_partitions), times=2),
    Weakening("untiered-partition-dropped", without(EMBEDDED + "storage.insert_dropped"), times=1),
    Weakening("archive-in-drifted-table", without("tiering.coordinator.lake_repair.decision.archived_rows", by=lambda *_: 0), times=2),
)
