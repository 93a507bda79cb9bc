"""Which files the sweep takes, rule by rule; and over random histories never one that a commit names or could still name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiering.lake.maintenance import StoredFile
from tiering.lake.rules.sweep import RoundFate, SweptTable, Verdict, round_of, sweep_verdicts

NOW = datetime(2026, 1, 2, tzinfo=UTC)
DAY = timedelta(days=1)
UUID = "11111111-2222-3333-4444-555555555555"


def stored(name: str, age: timedelta = 2 * DAY) -> StoredFile:
    return StoredFile(f"/lake/{name}", name, 10, NOW - age)


FILE = stored(f"lakeward-{UUID}-nonce-0-00000.parquet")
DEAD = RoundFate(ended=True)


def verdict(
    file: StoredFile = FILE,
    fate: RoundFate | None = DEAD,
    tag: int | None = 5,
    others: dict[str, RoundFate] | None = None,
    **lake: Any,
) -> Verdict:
    lists = {name: lake.get(name, ()) for name in ("snapshots", "live", "rounds")}
    flags = {name: lake.get(name, False) for name in ("begins_untiered", "has_follow_up_commits")}
    now = SweptTable("here", tiered=tag, **lists, **flags)
    [(_, verdict_of_file)] = sweep_verdicts([file], {**(others or {}), **({} if fate is None else {UUID: fate})}, now, NOW, DAY)
    return verdict_of_file


def test_what_a_round_without_a_grant_left_goes() -> None:
    assert verdict() is Verdict.REMOVE


@pytest.mark.parametrize(
    "name",
    [
        f"lakeward-{UUID}-n-17-0-00000.parquet",
        f"lakeward-{UUID}-x-m0.avro",
        f"snap-9-0-lakeward-{UUID}-x.avro",
        f"lakeward-{UUID}-x.marker",
    ],
)
def test_every_kind_of_own_file_is_known_by_its_name(name: str) -> None:
    assert verdict(stored(name)) is Verdict.REMOVE


@pytest.mark.parametrize(
    "name", ["00000-1-abc.parquet", f"snap-9-0-{UUID}.avro", f"{UUID}-m0.avro", "00001-x.metadata.json", "lakeward-x.txt"]
)
def test_files_of_others_stay(name: str) -> None:
    assert verdict(stored(name)) is Verdict.NOT_OURS


def test_a_live_file_stays_whatever_else_is_said() -> None:
    assert verdict(live={FILE.location}) is Verdict.LIVE


def test_a_young_file_stays() -> None:
    assert verdict(stored(FILE.name, DAY)) is Verdict.YOUNG
    assert verdict(stored(FILE.name, DAY / 2)) is Verdict.YOUNG


def test_files_of_an_unknown_round_stay() -> None:
    assert verdict(fate=None) is Verdict.UNKNOWN_ROUND


def test_files_of_a_round_that_has_not_ended_stay() -> None:
    assert verdict(fate=RoundFate(ended=False)) is Verdict.OPEN_ROUND


@pytest.mark.parametrize("tag", [5, None])
def test_a_grant_on_the_present_tag_may_still_land(tag: int | None) -> None:
    assert verdict(fate=RoundFate(True, (tag,), granted_for="here"), tag=tag) is Verdict.MAY_STILL_LAND


def test_a_grant_on_a_former_tag_lands_only_after_a_roll_back_to_it() -> None:
    former = RoundFate(True, (4,), granted_for="here")
    assert verdict(fate=former, tag=5, snapshots={4, 5}) is Verdict.MAY_STILL_LAND
    assert verdict(fate=former, tag=5, snapshots={5}) is Verdict.REMOVE


def test_a_grant_on_an_empty_table_lands_only_after_a_roll_back_to_it() -> None:
    first = RoundFate(True, (None,), granted_for="here")
    assert verdict(fate=first, tag=5, snapshots={3, 5}, begins_untiered=True) is Verdict.MAY_STILL_LAND
    assert verdict(fate=first, tag=5, snapshots={5}) is Verdict.REMOVE


def test_a_round_whose_grant_may_be_lost_lands_on_any_commit_before_it() -> None:
    lost = RoundFate(True, epoch=7, may_be_granted=True)
    assert verdict(fate=lost, tag=None) is Verdict.MAY_STILL_LAND
    assert verdict(fate=lost, begins_untiered=True) is Verdict.MAY_STILL_LAND
    assert verdict(fate=lost, rounds={"before"}, others={"before": RoundFate(True, epoch=6)}) is Verdict.MAY_STILL_LAND
    assert verdict(fate=lost, rounds={"unknown"}) is Verdict.MAY_STILL_LAND
    assert verdict(fate=lost, rounds={"after"}, others={"after": RoundFate(True, epoch=8)}) is Verdict.REMOVE


def test_leftovers_of_a_round_that_landed_go_while_its_snapshot_is_seen_and_stay_after() -> None:
    landed = RoundFate(True, (4,), landed=True, granted_for="here")
    assert verdict(fate=landed, rounds={UUID}, snapshots={4, 5}) is Verdict.MAY_STILL_LAND  # another attempt's
    assert verdict(fate=landed, rounds={UUID}) is Verdict.REMOVE
    assert verdict(fate=landed) is Verdict.OF_ANOTHER_COPY


@pytest.mark.parametrize("landed", [True, False])
def test_a_follow_up_commit_may_land_while_the_rounds_own_snapshot_is_there(landed: bool) -> None:
    """The commit is sent under the grant of the round, whose base does not name it. It may land whether or not the landing is recorded."""
    fate = RoundFate(True, (4,), landed, granted_for="here")
    assert verdict(fate=fate, rounds={UUID}, snapshots={5}, has_follow_up_commits=True) is Verdict.MAY_STILL_LAND
    assert verdict(fate=fate, rounds={"later"}, snapshots={6}, tag=6, has_follow_up_commits=True) is not Verdict.MAY_STILL_LAND
    assert verdict(fate=DEAD, rounds={"other"}, has_follow_up_commits=True) is Verdict.REMOVE


@pytest.mark.parametrize("landed", [True, False])
def test_what_was_granted_for_another_lake_table_stays(landed: bool) -> None:
    """The other table may have been renamed with its folder, and hold the files."""
    elsewhere = RoundFate(True, (4,), landed, granted_for="elsewhere")
    assert verdict(fate=elsewhere) is Verdict.OF_ANOTHER_TABLE
    assert verdict(fate=elsewhere, rounds={UUID}, snapshots={4}) is Verdict.OF_ANOTHER_TABLE


def test_a_grant_of_an_older_version_goes_by_what_it_was_built_on() -> None:
    unknown = RoundFate(True, (4,))
    assert verdict(fate=unknown) is Verdict.OF_ANOTHER_TABLE
    assert verdict(fate=unknown, snapshots={4, 5}) is Verdict.MAY_STILL_LAND
    assert verdict(fate=unknown, rounds={UUID}, snapshots={5}) is Verdict.REMOVE
    assert verdict(fate=RoundFate(True, (None,))) is Verdict.OF_ANOTHER_TABLE
    assert verdict(fate=RoundFate(True, (None,), landed=True), rounds={UUID}) is Verdict.REMOVE


def test_a_name_that_two_rounds_could_have_belongs_to_neither() -> None:
    assert round_of("lakeward-r1-x-n-0.parquet", {"r1", "r1-x"}) is None
    assert round_of("lakeward-r1-x-n-0.parquet", {"r1"}) == "r1"


STEPS = st.lists(
    st.tuples(st.sampled_from(["begin", "grant", "land", "die", "rename", "roll back", "expire", "sweep"]), st.integers(0, 5)), max_size=40
)


@given(STEPS)
def test_no_history_of_rounds_loses_a_file_that_was_or_could_be_committed(steps: list[tuple[str, int]]) -> None:
    """Rounds begin, are granted, die at any moment, and send their commit at any later one; the lake checks uuid and tag alone.

    A renamed table leaves its folder, and everything in it, to the one that is made in its place. A table is rolled back to any commit that
    did not expire.
    """
    rounds: dict[str, RoundFate] = {}
    files: dict[str, StoredFile] = {}
    live: dict[str, set[str]] = {"table-0": set()}
    table, tag, newest, tags = "table-0", 0, 0, {0}
    for step, number in steps:
        name = f"r{number}"
        fate = rounds.get(name)
        if step == "begin" and fate is None:
            rounds[name], files[name] = RoundFate(ended=False), stored(f"lakeward-{name}-n-0.parquet")
        elif step == "grant" and fate is not None and not fate.ended and not fate.granted_on:
            rounds[name] = RoundFate(False, (tag,), granted_for=table)
        elif step == "die" and fate is not None:
            rounds[name] = RoundFate(True, fate.granted_on, granted_for=fate.granted_for)
        elif step == "land" and fate is not None and (fate.granted_for, fate.granted_on) == (table, (tag,)):
            assert name in files, "a commit landed whose file the sweep had taken"
            live[table].add(files[name].location)
            tag = newest = newest + 1
            tags.add(tag)
        elif step == "rename":
            tag = newest = newest + 1
            table, tags = f"table-{len(live)}", {tag}
            live[table] = set()
        elif step == "roll back":
            tag = sorted(tags)[number % len(tags)]
        elif step == "expire":
            tags = {tag}
        elif step == "sweep":
            for file, verdict_of_file in sweep_verdicts(
                list(files.values()), rounds, SweptTable(table, tags, tag, live[table], ()), NOW, DAY
            ):
                if verdict_of_file is Verdict.REMOVE:
                    files = {round_id: kept_file for round_id, kept_file in files.items() if kept_file is not file}
    left = {file.location for file in files.values()}
    assert all(named <= left for named in live.values()), "a file went that a lake table names"
