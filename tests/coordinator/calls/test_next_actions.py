"""Each error class is brought about for real; what `next_action` names is run as it stands; then every row is in the lake, once.

Where it names nothing, that is right: every way out leaves rows out, and the hint says how many; or a user repairs it elsewhere, and then
the table continues by itself.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.types import DoubleType

from support.flink.flink_on_iceberg import share
from support.lake_kinds.kinds import ICEBERG, LAKE_KINDS, LakeKind
from support.lake_kinds.repairs import (
    FLINK_CASES,
    LOG,
    NEVER_FROM,
    RENAME,
    RENAME_BY_HAND,
    RETIER,
    cases_of,
    hinted_of,
)
from support.lakes import broken_lakes as broken
from support.lakes.broken_lakes import Source, first_round_failed_behind_its_plan, tiered
from support.lakes.hostile_lake import metadata_file, point_catalog
from support.on_call import call, follow, in_lake, next_action
from support.worlds.lake_world import LakeWorld
from support.worlds.memory_store import MemoryStore
from tiering import errors
from tiering.coordinator.decisions.next_action import CatalogNames
from tiering.coordinator.memory.history import HistoryRange
from tiering.lake.iceberg.lake import IcebergLake
from tiering.lake.maintenance import LakeSurvey
from tiering.lake.registry import local_lake_properties
from tiering.model.rounds import RoundState
from tiering.model.tables import TableInfo, TablePath
from tiering.procedures.pause_tiering import PauseTiering
from tiering.procedures.reconcile_lake import ReconcileLake

DROP_NOTE = "ALTER TABLE lake.sales.orders DROP COLUMN note"
RETRY = "CALL fluss.sys.retry_tiering('sales.orders')"


OF_THEIR_OWN = {
    errors.UntrackedLakeTable: "test_an_untracked_lake_table_gets_another_name",
    errors.TablePaused: "test_a_pause_without_an_end_is_ended_after_the_error",
    errors.DataCorrupt: "test_a_damaged_segment_is_put_back_and_then_tried_again",
    errors.SchemaDrift: "tests/integration/plugin/test_next_actions.py",
}


def name_of(value: object) -> str:
    if isinstance(value, bool):
        return "primary-key" if value else "log"
    return value.name if isinstance(value, LakeKind) else getattr(value, "__name__", "")


def prove_healthy(source: Source) -> None:
    """Checks that the waiting and the later rows are tiered: the lake has every row, once."""
    source.tier()
    source.write()
    assert source.tier().state is RoundState.SUCCEEDED
    assert source.world.record(source.info).error is None
    assert source.missing() == 0
    assert source.in_lake() == sorted(source.rows.items())


pytestmark = pytest.mark.in_turn("lake_kind", "world")


@pytest.fixture(params=LAKE_KINDS, ids=lambda kind: kind.name)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LakeWorld]:
    """One of each kind of lake."""
    world = LakeWorld(tmp_path, kind=request.param)
    yield world
    world.close()


def hint_of(source: Source) -> str:
    [status] = source.world.coordinator.view().table_statuses()
    return status.error_hint or ""


def take_steps(source: Source, steps: Sequence[str]) -> None:
    """Each is what is named, in turn; or what the hint says where nothing can be named, done by hand. Then nothing more is."""
    world = source.world
    for step in steps:
        statement = next_action(world.coordinator, source.info)
        if step is RENAME_BY_HAND:
            assert statement is None
            assert step in hint_of(source)
            world.by_hand.rename(source.info.path, "former")
        else:
            assert statement is not None
            assert statement.startswith(step)
            run(world, statement)
    assert next_action(world.coordinator, source.info) is None


def run(world: LakeWorld, statement: str) -> None:
    call(world.coordinator, statement) if ".sys." in statement else in_lake(world)(statement)


MENDED = [(kind, *case) for kind in LAKE_KINDS for case in cases_of(kind)]
WITHOUT = [(kind, *case) for kind in LAKE_KINDS for case in hinted_of(kind)]


@pytest.mark.parametrize(("lake_kind", "kind", "break_it", "keys", "steps"), MENDED, ids=name_of)
def test_what_is_named_makes_the_table_healthy(
    tmp_path: Path,
    lake_kind: LakeKind,
    kind: type[errors.LakewardError],
    break_it: Callable[[Source], None],
    keys: bool,
    steps: tuple[str, ...],
) -> None:
    world = LakeWorld(tmp_path, kind=lake_kind)
    source = tiered(world, keys, False)
    break_it(source)
    outcome = source.tier()
    assert outcome.error is not None
    assert outcome.error.error_class == kind.__name__
    take_steps(source, steps)
    prove_healthy(source)
    world.close()


@pytest.mark.parametrize(("lake_kind", "kind", "break_it", "keys", "hint"), WITHOUT, ids=name_of)
def test_nothing_is_named_where_every_way_leaves_rows_out(
    tmp_path: Path,
    lake_kind: LakeKind,
    kind: type[errors.LakewardError],
    break_it: Callable[[Source], None],
    keys: bool,
    hint: str,
) -> None:
    world = LakeWorld(tmp_path, kind=lake_kind)
    source = tiered(world, keys, False)
    break_it(source)
    outcome = source.tier()
    assert outcome.error is not None
    assert outcome.error.error_class == kind.__name__
    assert next_action(world.coordinator, source.info) is None
    assert hint in hint_of(source)
    world.close()


@pytest.mark.parametrize(("lake_kind", "kind", "break_it", "statement"), FLINK_CASES, ids=name_of)
def test_what_another_service_did_is_repaired(
    tmp_path: Path,
    lake_kind: LakeKind,
    kind: type[errors.LakewardError],
    break_it: Callable[[LakeWorld, TableInfo], None],
    statement: str,
) -> None:
    world = LakeWorld(tmp_path, kind=lake_kind)
    share(world)
    table = world.table("orders")
    world.append(table, 0, 50)
    world.tier(table)
    break_it(world, table)
    outcome = world.tier(table)
    assert outcome.error is not None
    assert outcome.error.error_class == kind.__name__
    [ran] = follow(world.coordinator, table, in_lake(world))
    assert ran.startswith(statement)
    assert world.tier(table).error is None
    world.assert_exact(table)
    world.close()


def test_an_untracked_lake_table_gets_another_name(world: LakeWorld) -> None:
    source = first_round_failed_behind_its_plan(world, LOG, False)
    broken.untracked_after_a_failed_first_round(source)
    outcome = source.tier()
    assert outcome.error is not None
    assert outcome.error.error_class == errors.UntrackedLakeTable.__name__
    take_steps(source, (RENAME if names_renamings(world) else RENAME_BY_HAND, RETIER))
    prove_healthy(source)


def test_a_source_that_is_made_anew_again_and_again_gives_each_former_lake_table_a_name_of_its_own(tmp_path: Path) -> None:
    world = LakeWorld(tmp_path)
    source = tiered(world, LOG, False)
    for times in (1, 2):
        broken.source_made_anew(source)
        source.tier()
        (ran,) = follow(world.coordinator, source.info, in_lake(world))
        assert ran.startswith(RENAME)
        prove_healthy(source)
        assert len(world.iceberg_catalog().list_tables("sales")) == 1 + times
    world.close()


def names_renamings(world: LakeWorld) -> bool:
    """Whether Spark has the lake's catalog, and that renames tables."""
    return world.lake_format == "iceberg"


class FoldersAsNames(IcebergLake):
    """A lake whose tables are folders by name, as in a hadoop catalog."""

    renames_tables = False


def test_no_statement_is_named_that_the_lakes_catalog_does_not_take(tmp_path: Path) -> None:
    assert not IcebergLake({"type": "hadoop", "warehouse": f"file://{tmp_path}"}).renames_tables
    world = LakeWorld(tmp_path)
    world.lake = FoldersAsNames(world.lake_properties)
    source = tiered(world, LOG, False)
    broken.source_made_anew(source)
    source.tier()
    assert next_action(world.coordinator, source.info) is None
    world.close()


class Surprising(IcebergLake):
    """A lake that raises an unexpected error at the lake table `first`."""

    def survey(self, path: TablePath) -> LakeSurvey | None:
        if path.table_name == "first":
            raise KeyError("a defect")
        return super().survey(path)


def test_a_table_that_cannot_be_looked_at_keeps_no_other_from_it(tmp_path: Path) -> None:
    world = LakeWorld(tmp_path)
    world.lake = Surprising(world.lake_properties)
    tables = [world.table(name) for name in ("first", "second")]
    for table in tables:
        world.append(table, 0, 4)
    world.due()
    for table in tables:
        world.begin(table).end()
        world.iceberg_catalog().drop_table(str(table.path))
    world.due()
    for table in tables:
        world.begin(table).end()
    first, second = (next_action(world.coordinator, table) for table in tables)
    assert (first, second) == (None, "CALL fluss.sys.reconcile_lake('sales.second', 'retier')")
    world.close()


def test_a_damaged_segment_is_put_back_and_then_tried_again(tmp_path: Path) -> None:
    world = LakeWorld(tmp_path)
    source = tiered(world, LOG, False)
    segment = max((tmp_path / "cluster" / "log").rglob("*.arrow"), key=lambda path: path.stat().st_mtime_ns)
    whole = segment.read_bytes()
    segment.write_bytes(whole[: len(whole) // 2])
    outcome = source.tier()
    assert outcome.error is not None
    assert outcome.error.error_class == errors.DataCorrupt.__name__
    assert segment.name in outcome.error.message
    segment.write_bytes(whole)
    assert follow(world.coordinator, source.info, in_lake(world)) == [RETRY]
    prove_healthy(source)
    world.close()


def test_a_lake_table_that_was_mended_by_hand_goes_on_by_itself(world: LakeWorld) -> None:
    """The user puts the table back under its name. No action is named, and no CALL is needed."""
    source = tiered(world, LOG, False)
    broken.renamed(source)
    source.tier()
    assert next_action(world.coordinator, source.info) == RETIER
    world.restart()
    world.by_hand.rename(TablePath("sales", "former"), "orders")
    assert next_action(world.coordinator, source.info) is None
    assert world.record(source.info).state == "Pending"
    assert "LAKE_MENDED" in [event.event_type for event in world.store.events()]  # type: ignore[attr-defined]
    prove_healthy(source)


def test_of_two_clusters_with_one_lake_none_takes_the_table_of_the_other_away(tmp_path: Path) -> None:
    world = LakeWorld(tmp_path / "home")
    tiered(world, LOG, False)
    world.close()
    shutil.rmtree(tmp_path / "home" / "cluster")
    world.store = MemoryStore()
    world.reopen()
    source = Source(world, LOG, False)
    source.write()
    outcome = source.tier()
    assert outcome.error is not None
    assert outcome.error.error_class == errors.ClusterMismatch.__name__
    assert next_action(world.coordinator, source.info) is None
    (tmp_path / "own").mkdir()
    world.lake_properties = local_lake_properties(tmp_path / "own")
    world.lake = IcebergLake(world.lake_properties)
    world.restart()
    assert next_action(world.coordinator, source.info) is None
    prove_healthy(source)
    world.close()


def test_a_cluster_whose_newest_state_comes_back_goes_on_by_itself(tmp_path: Path) -> None:
    world = LakeWorld(tmp_path)
    source = tiered(world, LOG, False)
    source.tier()
    world.close()
    shutil.copytree(tmp_path / "cluster", tmp_path / "old")
    world.reopen()
    source.write()
    source.tier()
    swap_cluster(world, tmp_path / "old", tmp_path / "newest")
    outcome = source.tier()
    assert outcome.error is not None
    assert outcome.error.error_class == errors.LogBehindLake.__name__
    assert next_action(world.coordinator, source.info) is None
    swap_cluster(world, tmp_path / "newest", tmp_path / "old")
    assert next_action(world.coordinator, source.info) is None
    prove_healthy(source)
    world.close()


def swap_cluster(world: LakeWorld, instead: Path, kept_as: Path) -> None:
    """Another copy of the cluster's folder takes the place of the present one."""
    world.close()
    world.storage.root.rename(kept_as)
    instead.rename(world.storage.root)
    world.reopen()


def test_a_hint_says_how_many_rows_a_choice_leaves_out(tmp_path: Path) -> None:
    world = LakeWorld(tmp_path)
    source = tiered(world, LOG, False)
    broken.rolled_back(source)
    source.tier()
    assert next_action(world.coordinator, source.info) == RETIER
    [status] = world.coordinator.view().table_statuses()
    assert status.error_hint is not None
    assert status.error_hint.endswith("CALL sys.reconcile_lake('sales.orders', 'accept') leaves 12 records out of the lake.")
    world.close()


def add_note(source: Source) -> None:
    source.world.by_hand.add_text_column(source.info.path, "note")


def test_a_column_that_a_user_added_is_named_and_without_it_the_table_is_tiered_again(world: LakeWorld) -> None:
    source = tiered(world, LOG, False)
    add_note(source)
    outcome = source.tier()
    assert outcome.error is not None
    assert outcome.error.error_class == errors.SchemaDrift.__name__
    assert next_action(world.coordinator, source.info) == (DROP_NOTE if world.lake_format == "iceberg" else None)
    assert "Repair the lake table" in hint_of(source)
    world.by_hand.drop_column(source.info.path, "note")
    assert next_action(world.coordinator, source.info) is None
    assert world.record(source.info).state == "Pending"
    prove_healthy(source)


@pytest.mark.parametrize("world", [ICEBERG], indirect=True)
def test_a_type_that_iceberg_does_not_take_back_needs_a_new_lake_table(world: LakeWorld) -> None:
    source = tiered(world, LOG, False)
    with world.iceberg_catalog().load_table(str(source.info.path)).update_schema(allow_incompatible_changes=True) as update:
        update.update_column("id", field_type=DoubleType())
    outcome = source.tier()
    assert outcome.error is not None
    assert outcome.error.error_class == errors.SchemaDrift.__name__
    assert "Repair the lake table" not in hint_of(source)
    assert "Rename the lake table sales.orders" in hint_of(source)
    steps = follow(world.coordinator, source.info, in_lake(world))
    assert [step[: len(start)] for step, start in zip(steps, (RENAME, RETIER), strict=True)] == [RENAME, RETIER]
    prove_healthy(source)


@pytest.mark.parametrize("world", [ICEBERG], indirect=True)
def test_a_column_that_a_user_filled_is_dropped_only_by_that_user(world: LakeWorld) -> None:
    source = tiered(world, LOG, False)
    add_note(source)
    source.tier()
    assert next_action(world.coordinator, source.info) == DROP_NOTE, "it is empty"
    lake_table = world.iceberg(source.info)
    rows = lake_table.scan().to_arrow()
    notes = pa.array(["look at this", *[None] * (rows.num_rows - 1)], pa.string())
    lake_table.overwrite(rows.set_column(rows.schema.get_field_index("note"), "note", notes))
    statement = next_action(world.coordinator, source.info)
    assert statement is not None
    assert statement.startswith(RENAME), "his notes stay under another name, and every row comes again"
    assert hint_of(source).endswith("ALTER TABLE <lake catalog>.sales.orders DROP COLUMN note loses the values of 1 row.")
    assert len(follow(world.coordinator, source.info, in_lake(world))) == 2
    prove_healthy(source)


def test_of_a_drifted_table_that_was_rolled_back_the_drift_is_mended_first(tmp_path: Path) -> None:
    world = LakeWorld(tmp_path)
    source = tiered(world, LOG, False)
    broken.rolled_back(source)
    source.tier()
    assert next_action(world.coordinator, source.info) == RETIER
    add_note(source)
    head = world.view(source.info).head
    for dry_run in (True, False):
        with pytest.raises(errors.SchemaDrift, match=r"has the column 'note'.*; nothing was reconciled") as refusal:
            asyncio.run(world.coordinator.control.perform(ReconcileLake(source.info.path, "retier", caller="ann", dry_run=dry_run)))
        assert "First ALTER TABLE <lake catalog>.sales.orders DROP COLUMN note (which" in (refusal.value.hint or "")
    assert world.view(source.info).head == head
    assert next_action(world.coordinator, source.info) == "ALTER TABLE lake.sales.orders DROP COLUMN note"
    world.by_hand.drop_column(source.info.path, "note")
    assert follow(world.coordinator, source.info, in_lake(world)) == [RETIER]
    prove_healthy(source)
    world.close()


def test_a_place_that_is_allowed_at_the_next_start_lets_it_go_on(tmp_path: Path) -> None:
    world = LakeWorld(tmp_path / "home")
    source = tiered(world, LOG, False)
    catalog_file = tmp_path / "home" / "lake-catalog.db"
    (outside := tmp_path / "outside").mkdir()
    shutil.copy(metadata_file(catalog_file), outside / "m.metadata.json")
    point_catalog(catalog_file, f"file://{outside}/m.metadata.json")
    outcome = source.tier()
    assert outcome.error is not None
    assert outcome.error.error_class == errors.ForbiddenLocation.__name__
    assert next_action(world.coordinator, source.info) is None
    world.lake_properties["lakeward.allowed-locations"] = f"file://{outside}"
    world.lake = IcebergLake(world.lake_properties)
    world.restart()
    assert next_action(world.coordinator, source.info) is None
    assert world.begin(source.info).end().error is None
    world.close()


def test_a_pause_without_an_end_is_ended_after_the_error(tmp_path: Path) -> None:
    world = LakeWorld(tmp_path)
    source = tiered(world, LOG, False)
    broken.lost(source)
    source.tier()
    asyncio.run(world.coordinator.control.perform(PauseTiering(source.info.path, caller="bob", reason="repairs")))
    resume = "CALL fluss.sys.resume_tiering('sales.orders')"
    assert follow(world.coordinator, source.info, in_lake(world)) == [RETIER, resume]
    prove_healthy(source)
    world.close()


def test_it_is_written_for_the_catalogs_of_the_reader(tmp_path: Path) -> None:
    world = LakeWorld(tmp_path)
    source = tiered(world, LOG, False)
    broken.of_another_table(source)
    source.tier()
    names = CatalogNames.from_plain("my-stream", "ice")
    statement = next_action(world.coordinator, source.info, names)
    assert statement == f"ALTER TABLE ice.sales.orders RENAME TO orders_former_{source.info.table_id}_3"
    in_lake(world)(statement.replace("ice.", "lake."))
    assert next_action(world.coordinator, source.info, names) == "CALL `my-stream`.sys.reconcile_lake('sales.orders', 'retier')"
    view = world.coordinator.view()
    [row] = view.history.read_errors(HistoryRange())
    assert view.next_action_against(row, names) == "CALL `my-stream`.sys.reconcile_lake('sales.orders', 'retier')"
    call(world.coordinator, RETIER)
    view = world.coordinator.view()
    [row] = view.history.read_errors(HistoryRange())
    assert view.next_action_against(row, names) is None
    world.close()


def every_class(root: type[errors.LakewardError] = errors.LakewardError) -> list[type[errors.LakewardError]]:
    return [root, *(kind for child in root.__subclasses__() if child.__module__ == errors.__name__ for kind in every_class(child))]


def test_every_class_has_a_statement_or_a_sentence_why_none_can_help() -> None:
    for kind in every_class():
        assert bool(kind.next_action) != bool(kind.no_statement), kind
        assert not kind.no_statement or kind.no_statement.endswith("."), kind


@pytest.mark.in_turn
@pytest.mark.parametrize("lake_kind", LAKE_KINDS, ids=name_of)
def test_every_class_with_a_statement_is_proved_in_every_kind_of_lake_that_it_comes_from(lake_kind: LakeKind) -> None:
    proved = {kind for kind, *_ in cases_of(lake_kind)} | {kind for of_kind, kind, *_ in FLINK_CASES if of_kind == lake_kind}
    with_statement = {kind for kind in every_class() if kind.next_action}
    assert with_statement - proved - OF_THEIR_OWN.keys() == NEVER_FROM[lake_kind]
    assert not proved & NEVER_FROM[lake_kind]
    assert proved <= with_statement
