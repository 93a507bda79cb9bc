"""Which files count as left by expiry: only those of the history that the table has now."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tiering.lake.maintenance import StoredFile
from tiering.lake.rules.sweep import RoundFate, SweptTable, Verdict, sweep_verdicts
from tiering.lake.rules.upkeep.expired_files import CLOCK_SKEW, CommittedRound, FilesOfRounds, Lineage, OrphanCandidates, lineage_of

NOW = datetime(2026, 1, 2, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
ROUND = "11111111-2222-3333-4444-555555555555"
FILE = StoredFile(f"/lake/lakeward-{ROUND}-n-0.parquet", f"lakeward-{ROUND}-n-0.parquet", 10, NOW - 2 * DAY)
LANDED = RoundFate(True, (4,), landed=True, granted_for="here")


def chain(*names: str) -> list[CommittedRound]:
    return [CommittedRound(name, base) for base, name in zip((None, *names), names, strict=False)]


def of_dead(*locations: str, round_id: str = "r1") -> FilesOfRounds:
    return FilesOfRounds(dict.fromkeys(locations, round_id), (), ())


def test_a_lineage_is_the_chain_of_bases_as_far_as_the_ledger_reaches() -> None:
    assert lineage_of("t", "r4", "r3", chain("r1", "r2", "r3")).rounds == {"r4", "r3", "r2", "r1"}
    assert lineage_of("t", "r4", "r3", chain("r1", "r2")).rounds == {"r4", "r3"}
    assert lineage_of("t", "r1", None, chain("r1")).rounds == {"r1"}
    assert lineage_of("t", "b", "a", [CommittedRound("a", "b"), CommittedRound("b", "a")]).rounds == {"a", "b"}


def test_a_file_is_dead_since_the_first_look_that_found_it_so() -> None:
    candidates, lineage = OrphanCandidates(), lineage_of("t", "r2", "r1", chain("r1", "r2"))
    assert candidates.observe(1, lineage, of_dead("a"), NOW) == {"a": NOW}
    assert candidates.observe(1, lineage, of_dead("a", "b"), NOW + HOUR) == {"a": NOW, "b": NOW + HOUR}
    assert candidates.observe(1, lineage, of_dead("b"), NOW + 2 * HOUR) == {"b": NOW + HOUR}
    assert candidates.waiting(1) == 1


def test_files_of_a_round_that_is_not_on_the_chain_belong_to_a_copy() -> None:
    """The table was set back to r1 and reconciled; r2 and r3 are those of the copy that was put aside."""
    lineage = lineage_of("t", "repair", "r1", [*chain("r1", "r2", "r3"), CommittedRound("repair", "r1")])
    assert OrphanCandidates().observe(1, lineage, of_dead("a", round_id="r3"), NOW) == {}
    assert OrphanCandidates().observe(1, lineage, of_dead("a", round_id="r1"), NOW) == {"a": NOW}


def test_a_file_of_a_pruned_round_is_dead_only_if_it_was_seen_alive_before() -> None:
    candidates = OrphanCandidates()
    first, second = lineage_of("t", "r1", None, ()), lineage_of("t", "r2", "r1", ())
    assert candidates.observe(1, first, FilesOfRounds({}, ("a",), ("b",)), NOW) == {}
    assert candidates.observe(1, second, FilesOfRounds({}, (), ("a", "b")), NOW + HOUR) == {"a": NOW + HOUR}
    assert candidates.observe(1, second, FilesOfRounds({}, (), ("a", "b")), NOW + 2 * HOUR) == {"a": NOW + HOUR}


def test_what_was_seen_before_a_set_back_counts_no_longer() -> None:
    candidates = OrphanCandidates()
    candidates.observe(1, lineage_of("t", "r3", "r2", chain("r1", "r2")), FilesOfRounds({}, ("a",), ()), NOW)
    repaired = lineage_of("t", "repair", "r1", chain("r1"))
    assert candidates.observe(1, repaired, FilesOfRounds({}, (), ("a",)), NOW + HOUR) == {}
    candidates.observe(1, lineage_of("u", "repair", "r1", chain("r1")), FilesOfRounds({}, ("b",), ()), NOW)
    assert candidates.observe(1, repaired, FilesOfRounds({}, (), ("b",)), NOW + HOUR) == {}, "another lake table"


def verdict(
    fate: RoundFate | None, dead_since: datetime | None, oldest: datetime | None = NOW, tag: int | None = 9, **more: bool
) -> Verdict:
    dead = {} if dead_since is None else {FILE.location: dead_since}
    table = SweptTable("here", {9}, tag, (), (), dead_since=dead, oldest_commit=oldest, **more)
    [(_, answer)] = sweep_verdicts([FILE], {} if fate is None else {ROUND: fate}, table, NOW, 30 * DAY, HOUR)
    return answer


def test_an_expired_file_goes_once_it_was_dead_for_the_guard_however_young_other_leftovers_must_not_be() -> None:
    assert verdict(LANDED, None) is Verdict.YOUNG
    assert verdict(LANDED, NOW - HOUR) is Verdict.EXPIRED_LATELY
    assert verdict(LANDED, NOW - 2 * HOUR) is Verdict.REMOVE


def test_the_conditions_of_a_late_commit_hold_for_expired_files_too() -> None:
    assert verdict(RoundFate(True, (9,), landed=True, granted_for="here"), NOW - DAY) is Verdict.MAY_STILL_LAND
    assert verdict(RoundFate(False, (4,), landed=True, granted_for="here"), NOW - DAY) is Verdict.OPEN_ROUND
    assert verdict(RoundFate(True, (4,), landed=True, granted_for="there"), NOW - DAY) is Verdict.OF_ANOTHER_TABLE
    assert verdict(RoundFate(True, (None,), landed=True, granted_for="here"), NOW - DAY, begins_untiered=True) is Verdict.MAY_STILL_LAND


def test_a_pruned_round_may_land_late_while_a_snapshot_is_as_old_as_its_file() -> None:
    assert verdict(None, NOW - DAY, FILE.modified_at + CLOCK_SKEW) is Verdict.MAY_STILL_LAND
    assert verdict(None, NOW - DAY, None) is Verdict.MAY_STILL_LAND
    assert verdict(None, NOW - DAY, tag=None) is Verdict.MAY_STILL_LAND
    assert verdict(None, NOW - DAY, begins_untiered=True) is Verdict.MAY_STILL_LAND
    assert verdict(None, NOW - DAY) is Verdict.REMOVE
    assert verdict(None, NOW - HOUR) is Verdict.EXPIRED_LATELY
    table = SweptTable("here", {9}, 9, (), (), oldest_commit=NOW)
    assert [answer for _, answer in sweep_verdicts([FILE], {}, table, NOW, HOUR)] == [Verdict.UNKNOWN_ROUND]


STEPS = st.lists(
    st.tuples(st.sampled_from(["tier", "tier", "expire", "set back", "look", "look", "prune", "restart"]), st.integers(0, 9)),
    max_size=60,
)


@given(STEPS)
def test_over_all_histories_no_file_of_the_table_or_of_a_copy_that_was_put_aside_goes(steps: list[tuple[str, int]]) -> None:
    """Rounds land and each leaves a file that its snapshot and the next two name. A user sets the table back to a former state, keeps the
    newer one as a copy, and reconciles."""
    ledger: list[CommittedRound] = [CommittedRound("r0", None)]
    snapshots, tip, copies, count = ["r0"], ["r0"], list[list[str]](), 1  # rounds whose snapshots are there; the line of rounds
    candidates, files = OrphanCandidates(), {"r0"}
    now = NOW

    def named(line: list[str], shown: list[str]) -> set[str]:
        return {name for round_id in shown for name in line[max(line.index(round_id) - 2, 0) : line.index(round_id) + 1]}

    for step, number in steps:
        now += HOUR
        if step == "tier":
            name = f"r{count}"
            ledger.append(CommittedRound(name, tip[-1]))
            count, tip, snapshots = count + 1, [*tip, name], [*snapshots, name]
            files.add(name)
        elif step == "expire":
            snapshots = snapshots[-2:]
        elif step == "set back" and len(snapshots) > 1:
            copies.append([*tip])
            until = snapshots[number % (len(snapshots) - 1)]
            name = f"r{count}"
            ledger.append(CommittedRound(name, until))
            tip = [*tip[: tip.index(until) + 1], name]
            snapshots = [round_id for round_id in snapshots if round_id in tip] + [name]
            count += 1
            files.add(name)
        elif step == "prune":
            ledger = ledger[-3:]
        elif step == "restart":
            candidates = OrphanCandidates()
        elif step == "look":
            live = named(tip, snapshots)
            expected = {row.round_id for row in ledger}
            dead = {name: name for name in files - live if name in expected and name not in snapshots}
            pruned = files - expected
            lineage = lineage_of("t", tip[-1], tip[-2] if len(tip) > 1 else None, ledger)
            for name in candidates.observe(1, lineage, FilesOfRounds(dead, pruned & live, pruned - live), now):
                files.discard(name)
        for line in [tip, *copies]:
            newest = line[-3:] if line is not tip else sorted(named(tip, snapshots))
            lost = set(newest) - files
            assert not lost or line is not tip, f"the table lost {lost}"
            put_aside = {name for name in newest if name not in tip}
            assert not put_aside - files, f"a copy lost {put_aside - files}"


def test_a_lineage_of_another_table_forgets() -> None:
    candidates = OrphanCandidates()
    candidates.observe(1, Lineage("t", "r1", {"r1"}), of_dead("a"), NOW)
    assert candidates.observe(1, Lineage("u", "r1", {"r1"}), of_dead("a"), NOW + HOUR) == {"a": NOW + HOUR}
