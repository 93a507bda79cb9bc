"""A random story beside Flink, driven by a seed: two incarnations of its committer, our rounds with lost, late and repeated requests,
tierers that die or sleep, a coordinator that starts again, a user who compacts, expires or rolls back and does what errors say, and
retention. A partitioned table has one partition, which is dropped and created again under its name. A changelog may lack before-images.
Each fault is counted under its name (`faults.beside_flink.faults`).

`heal` ends the faults. Then every offset, or key, of the living partition is in the lake once, Fluss names the newest snapshot, and no
error is left. On the way each error is checked: what it names has happened. Rows of former partitions stay all the time.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from support.background import tick
from support.clusters.shared_cluster import Record
from support.flink.beside_flink import (
    AFTER,
    BEFORE,
    CLEAN_KEY_TABLE,
    CLEAN_LOG_TABLE,
    DELETE,
    FRESHNESS_MS,
    INSERT,
    KEY_TABLE,
    LOG_TABLE,
    BesideFlink,
    appended,
)
from support.flink.flink_incarnations import FlinkIncarnations
from support.lakes.clean_memory_lake import CleanMemoryLake
from support.lakes.shared_memory_lake import SharedMemoryLake
from support.simulated.chance import Chance
from tiering.cluster.shared_lake import CHANGELOG_IMAGE, WITHOUT_BEFORE_IMAGES
from tiering.coordinator.calls.retry_tiering import retry_tiering
from tiering.errors import CannotReconcile, ClusterUnavailable, CommitOutcomeUnknown
from tiering.lake.base import LakeView
from tiering.lake.rules.hints import reconcile_call
from tiering.model.rounds import Assignment, RecordedLakeSnapshot, RoundState
from tiering.model.states import TableState
from tiering.model.tables import BucketKey, TableInfo, TablePath
from tiering.procedures.retry_tiering import RetryTiering
from tiering.round.messages import RoundReport, report_to_pb
from tiering.round.runner import RoundRunner
from tiering.round.steps.actions import RoundOutcome

LAKE_FAULTS = ("ok", "ok", "ok", "ok", "answer lost", "lost", "late")
BY_COMMIT = {"lost": "commit-request-lost", "answer lost": "commit-answer-lost", "late": "commit-request-late"}
KEYS, KV_SNAPSHOT_STORIES = 12, 4  # in one story of so many there are KV snapshots when Flink begins
ASLEEP_MS = 30_000
"""Three times as long as a tierer may be silent."""
LOST_TELLINGS, LANDINGS, LANDINGS_IN_STATEMENTS = 0.05, 0.08, 0.5
"""Shares: of words to Fluss, and of looks at the lake, in rounds and in statements, that an append of Flink's comes before."""
_FORMER_HEAD = re.compile(r"(?:main branch on|rolled back: the) snapshot (\d+)")
_NAMED_ACTION = re.compile(r"sys\.reconcile_lake\('[^']*', '(\w+)'\)")


class RandomStory:
    """See the module. `step` does one random thing."""

    def __init__(
        self,
        seed: int,
        *,
        keyed: bool,
        lake: type[SharedMemoryLake] = SharedMemoryLake,
        partitioned: bool = False,
        before_images: bool = True,
    ) -> None:
        self.chance = Chance(seed)
        self.random = self.chance.random
        self.keyed, self.is_clean = keyed, issubclass(lake, CleanMemoryLake)
        tables = (CLEAN_LOG_TABLE, CLEAN_KEY_TABLE) if self.is_clean else (LOG_TABLE, KEY_TABLE)
        self.partitioned, self.before_images = partitioned, before_images
        table = replace(tables[keyed], partition_keys=("region",) if partitioned else ())
        table = table if before_images else replace(table, properties={CHANGELOG_IMAGE: WITHOUT_BEFORE_IMAGES})
        self.world = BesideFlink(table, [], lake)
        self.archive: dict[tuple[BucketKey, int], int] = {}
        """Rows of former partitions that stand in the lake: the offset by log offset, or by key."""
        self.dropped_since_error = False
        """Whether what the table's error says may be about rows that no log has any more: a user tries again first."""
        self.world.cluster.takes_kv_snapshots = keyed
        self.rolls_back = self.random.random() < 0.4 and not self.is_clean
        """Either a user rolls back, or retention cuts the log: with both, rows can be lost for good."""
        self.happened, self.outcomes = Counter[str](), Counter[str]()
        self.live_keys: set[int] = set()
        kv_snapshot_seed = seed if keyed and seed % KV_SNAPSHOT_STORIES == 2 else None
        self.flinks = FlinkIncarnations(self.world.lake, self.chance, self.outcomes, kv_snapshot_seed)
        self.round: tuple[Assignment, RoundRunner] | None = None
        self.sleeping: list[tuple[Assignment, RoundRunner]] = []
        """Rounds of tierers that were taken for dead, and go on."""
        self.ended_empty = False
        self.is_ours = False
        """Whether Fluss has assigned the table to us."""
        self.is_called = False
        """Whether a statement is being carried out."""
        self.inject()
        self.write()
        self.world.lake.ensure_table(self.world.info)
        if self.is_clean:  # so that there is a state of ours to which a user can go back
            self.world.cluster.write(0, *self.records(2), *([] if keyed else appended(1)))
            self.run_ours()

    def inject(self) -> None:
        """Puts the faults of commit requests, of words to Fluss and of looks at the lake where they happen."""
        lake, cluster = self.world.lake, self.world.cluster
        view, rewind = lake.view, cluster.rewind_lake_snapshot

        def viewed(path: TablePath) -> LakeView | None:
            self.let_flink_land()
            return view(path)

        def tell(table: TableInfo, snapshot: RecordedLakeSnapshot) -> None:
            if self.chance.strikes("record-request-lost", LOST_TELLINGS):
                raise ClusterUnavailable("the request got lost")
            rewind(table, snapshot)
            if self.chance.strikes("record-answer-lost", LOST_TELLINGS):
                raise ClusterUnavailable("the answer got lost")

        lake.faults, lake.view = self.commit_fault, viewed  # type: ignore[method-assign]
        cluster.rewind_lake_snapshot = tell  # type: ignore[method-assign]

    def commit_fault(self) -> str:
        """Draws a fault of a commit request of ours."""
        if not self.chance.faulty:
            return "ok"
        if self.is_called:
            self.let_flink_land()
        fault = self.random.choice(LAKE_FAULTS)
        if fault in BY_COMMIT:
            self.chance.note(BY_COMMIT[fault])
        return fault

    def let_flink_land(self) -> None:
        """At times Flink appends now, between our look at Fluss and that at the lake, or within a statement."""
        share = LANDINGS_IN_STATEMENTS if self.is_called else LANDINGS
        if self.chance.faulty and self.flinks.living and self.random.random() < share and self.flinks.land():
            self.chance.note("flink-lands-in-statement" if self.is_called else "flink-lands-between-looks")

    def step(self) -> None:
        things: dict[Callable[[], None], int] = {
            self.write: 8,
            self.flink: 30,
            self.ours: 40,
            self.wake: 6,
            self.world.lake.deliver_late: 4,
            self.compact: 2,
            self.roll_back if self.rolls_back else self.cut: 0 if self.is_clean and not self.keyed else 1,
            self.expire: 0 if self.is_clean else 2,
            self.mend: 6,
            self.kill: 1,
            self.sleep: 1,
            self.restart: 1,
            self.lapse: 1,
            self.drop_partition: 2 if self.partitioned else 0,
        }
        self.random.choices(list(things), weights=list(things.values()))[0]()
        self.check_archive()

    def drop_partition(self) -> None:
        """With all of its log; the next write creates another one of its name."""
        if self.world.cluster.living:
            self.world.cluster.drop_partition()
            self.live_keys.clear()
            self.happened["recreated"] += 1
            self.chance.note("partition-recreated")
            self.archive |= self.world.lake.archived()
            self.dropped_since_error = self.world.record.error is not None

    def check_archive(self, *, may_lose: bool = False) -> None:
        """Rows of former partitions stay, unless a user sets the lake back; a key that a later partition changes takes their place."""
        archived = self.world.lake.archived()
        lost = [row for row in self.archive if row not in archived and not self.is_changed_since(*row)]
        assert may_lose or not lost, f"rows of former partitions are gone: {lost}, {self.happened}"
        self.archive = archived

    def is_changed_since(self, bucket: BucketKey, key: int) -> bool:
        """Whether a round may have replaced a key's row: a later partition has it, or a late round of its own one deleted it."""
        if not self.keyed:
            return False
        all_records = self.world.cluster.records
        later = [records for other, records in all_records.items() if (other.partition_id or 0) > (bucket.partition_id or 0)]
        own = all_records[bucket][self.archive[bucket, key] + 1 :]
        return (DELETE, key) in own or any(record is not None and record[1] == key for records in later for record in records)

    def trace(self) -> str:
        """A digest of everything that coordinator, lake and Fluss went through; the same for the same seed, wherever it runs."""
        events = [(event.occurred_at, event.event_type, event.round_id) for event in reversed(self.world.store.events(limit=1_000_000))]
        lake, cluster = self.world.lake.table, self.world.cluster
        rows = [(number, [held for *held, _ in ranges]) for number, ranges in sorted(lake.rows.items())]  # files have names by chance
        whole = (events, rows, cluster.registered, sorted(cluster.files), sorted(self.chance.injected.items()))
        return hashlib.sha256(repr((*whole, sorted(self.outcomes.items()), sorted(self.happened.items()))).encode()).hexdigest()

    def heal(self, turns: int = 60) -> None:
        """Ends all faults and Flink's rounds: within `turns` all is repaired, and no error is left."""
        self.chance.faulty = False
        while self.world.lake.late:
            self.world.lake.deliver_late()
        while self.flinks.living:
            self.flinks.advance()
        while self.sleeping:
            self.wake()
        while self.round is not None:  # it looked at the table while things went wrong
            self.advance()
        for _ in range(turns):
            self.run_ours()
            self.mend()
            if self.ended_empty and self.world.record.error is None and self.is_whole():
                break
        else:
            raise AssertionError(f"not whole: {self.world.record.error}, {self.happened}, {self.outcomes}, {self.chance.injected}")
        self.world.cluster.write(0, *self.records(4))
        if self.world.lake.head is None:  # a user renamed the lake table, and no row came since
            self.run_ours()
        self.world.flink().whole()
        for _ in range(2):
            assert (error := self.world.tier().error) is None, f"{error}"
        self.world.assert_whole() if not self.happened["accepted"] else self.assert_once()

    def is_whole(self) -> bool:
        if self.keyed and self.happened["accepted"]:
            return True  # keys whose changes were left out on a user's word say nothing any more
        held, truth = self.world.lake.held(), self.world.lake.truth()
        once = max(self.world.lake.row_counts().values(), default=1) == 1
        return once and (held == truth or (bool(self.happened["accepted"]) and held.items() <= truth.items()))

    def assert_once(self) -> None:
        if self.keyed:
            return
        assert max(self.world.lake.row_counts().values(), default=1) == 1
        assert self.world.lake.held().items() <= self.world.lake.truth().items()

    def records(self, count: int) -> list[Record]:
        records: list[Record] = []
        for _ in range(count):
            if self.random.random() < 0.15:
                records.append(None)
            elif not self.keyed:
                records += appended(1)
            else:
                records += self.change(self.random.randrange(KEYS))
        return records

    def change(self, key: int) -> list[Record]:
        if key not in self.live_keys:
            self.live_keys.add(key)
            return [(INSERT if self.before_images else AFTER, key)]
        if self.random.random() < 0.3:
            self.live_keys.discard(key)
            return [(DELETE, key)]
        return [(BEFORE, key), (AFTER, key)] if self.before_images else [(AFTER, key)]

    def write(self) -> None:
        self.world.cluster.write(0, *self.records(self.random.randint(1, 6)))

    def flink(self) -> None:
        """A new incarnation, if the table is not ours, or the next step of one."""
        if not self.is_ours and self.random.random() < 0.3:
            self.flinks.begin()
        if self.flinks.advance() and self.live_keys:  # its KV snapshot has a row that a later one lacks
            self.world.cluster.write(0, (DELETE, self.live_keys.pop()))
        if not self.before_images and max(self.world.lake.row_counts().values(), default=1) > 1:
            self.chance.note("flink-leaves-keys-twice")

    def ours(self) -> None:
        """A step of our round; it begins if Fluss assigns the table, and it is kept while a request of ours is unresolved."""
        if self.round is not None:
            self.advance()
            return
        if not self.is_ours and self.flinks.living and self.random.random() < 0.8:
            return  # theirs, unless Fluss has given it up on them
        self.world.clock.ms += self.random.choice((FRESHNESS_MS, FRESHNESS_MS, 6 * FRESHNESS_MS))
        tick(self.world.coordinator)
        self.round = self.world.next_round()
        self.is_ours = self.round is not None or self.world.record.unresolved_commit

    def run_ours(self) -> None:
        for _ in range(20):
            self.world.clock.ms += 6 * FRESHNESS_MS
            tick(self.world.coordinator)
            self.round = self.round or self.world.next_round()
            if self.round is not None:
                break
        while self.round is not None:
            self.advance()

    def advance(self) -> None:
        assert self.round is not None
        assignment, runner = self.round
        outcome = runner.advance()
        if outcome is None:
            return
        self.check_error(outcome)
        self.round = None
        self.outcomes[outcome.state.value] += 1
        self.ended_empty = outcome.state is RoundState.EMPTY
        self.report(assignment, outcome)
        self.is_ours = self.world.record.unresolved_commit

    def report(self, assignment: Assignment, outcome: RoundOutcome) -> None:
        report = RoundReport(assignment, outcome)
        self.world._beat(**{"finished_tables" if report.finished else "failed_tables": [report_to_pb(report)]})

    def sleep(self) -> None:
        """The tierer of our round is silent for longer than the service time-out."""
        if self.round is None:
            return
        self.sleeping.append(self.round)
        self.round = None
        self.chance.note("tierer-asleep")
        self.world.clock.ms += ASLEEP_MS
        tick(self.world.coordinator)
        self.is_ours = self.world.record.unresolved_commit

    def wake(self) -> None:
        """A step of one that slept. What it says in the end is of a round that is over."""
        if not self.sleeping:
            return
        assignment, runner = self.sleeping[0]
        outcome = runner.advance()
        if outcome is not None:
            self.sleeping.pop(0)
            self.outcomes[f"slept: {outcome.state.value}"] += 1
            self.report(assignment, outcome)

    def restart(self) -> None:
        """Our coordinator dies with its memory, and the next one goes on from its store."""
        self.world.restart()
        self.chance.note("coordinator-restarted")

    def check_error(self, outcome: RoundOutcome) -> None:
        """A permanent error names what has happened: none is false."""
        error = outcome.error
        if error is None or error.retryable or outcome.state.value in ("FENCED", "CANCELLED"):
            return
        self.outcomes[error.error_class] += 1
        doubled = max(self.world.lake.row_counts().values(), default=1) > 1
        is_recreated = self.happened["recreated"] > 0
        reasons = {
            "ForeignTieringOverlap": doubled,
            "ForeignTieringGap": bool(self.happened["rolled back"] or self.happened["cut"]),
            "LakeRolledBack": bool(self.happened["rolled back"] or self.happened["went back"]),
            "RecordAheadOfLake": bool(
                self.happened["rolled back"] or self.happened["went back"] or (self.happened["left open"] and self.happened["expired"])
            ),
            "LakeTableReplaced": bool(self.happened["renamed"]),
            "HistoryExpired": bool(self.happened["expired"]),
            "LogTruncated": bool(self.happened["cut"]),
            "UntrackedLakeTable": bool(self.happened["expired"]),
            "MarkerLost": bool(self.happened["expired"] or (self.world.lake.ids_come_again and self.happened["rolled back"])),
            "ForeignTiering": bool(self.happened["expired"]),
            "ForeignTieringUnproved": (self.is_clean and (self.keyed or is_recreated or not self.is_as_stated()))
            or (is_recreated and bool(self.happened["cut"])),
        }
        assert reasons.get(error.error_class), f"{error.error_class}: {error}"

    def is_as_stated(self) -> bool:
        """Whether the lake has each row of a log table once up to the end that Flink's newest snapshots state, and none behind it."""
        lake, bucket = self.world.lake, self.bucket
        records = self.world.cluster.records[bucket]
        files = (self.world.cluster.files.get(path, {}) for path in lake.offsets_path.values())
        stated = max((offsets.get(bucket, 0) for offsets in files), default=0)
        expected = {(bucket, offset): 1 for offset, record in enumerate(records[:stated]) if record is not None}
        return lake.row_counts() == expected

    @property
    def bucket(self) -> BucketKey:
        """The one bucket of the living partition, or of the last one that lived."""
        return BucketKey(self.world.cluster.partition_id, 0)

    def go_back(self, text: str) -> bool:
        """A user sets the main branch on the snapshot that an error names."""
        match = _FORMER_HEAD.search(text)
        if match is not None:
            self.world.lake.roll_back(int(match[1]))
            self.check_archive()  # the hint says that what is taken back is tiered again
            retry_tiering(self.world.coordinator.call_parts, RetryTiering(self.world.info.path, caller="alice"))
            self.happened["went back"] += 1
        return match is not None

    def mend(self) -> None:
        """A user does what the error says; where that is refused, what the refusal says."""
        record = self.world.record
        if record.state is not TableState.FAILED or record.error is None or record.error.retryable:
            return
        hint, tried = record.error.hint, set[str]()
        if self.dropped_since_error:
            self.dropped_since_error = False
            retry_tiering(self.world.coordinator.call_parts, RetryTiering(self.world.info.path, caller="alice"))
            return
        if self.is_clean and not self.keyed and self.go_back(f"{record.error.message} {hint}"):
            return
        if self.partitioned and "Rename the lake table" in hint and "retier" in hint and "adopt" not in hint:
            self.rename_lake()
            hint = f"{reconcile_call(self.world.info.path, 'retier')}"
        for _ in range(4):
            actions = [action for action in _NAMED_ACTION.findall(hint) if action not in tried]
            if not actions:  # the log was cut while a round read it
                retry_tiering(self.world.coordinator.call_parts, RetryTiering(self.world.info.path, caller="alice"))
                return
            action = self.random.choice(actions)
            may_stay = action == "adopt" and self.keyed  # doubled keys, as the hint says; its commit may land late
            try:
                with self.calling():
                    left_out = self.world.reconcile(action).records_left_out
                self.happened["accepted" if may_stay or (action == "accept" and left_out != 0) else action] += 1
                return
            except CannotReconcile as refusal:
                tried.add(action)
                self.outcomes["refused"] += 1
                hint = refusal.hint
                if self.partitioned and "Rename the lake table" in hint:
                    self.rename_lake()
                    hint, tried = reconcile_call(self.world.info.path, "retier"), set()
            except (CommitOutcomeUnknown, ClusterUnavailable) as unknown:  # its commit may have landed: it is to be called again
                self.happened["accepted"] += may_stay or action == "accept"
                self.happened["left open"] += isinstance(unknown, ClusterUnavailable)
                return
        raise AssertionError(f"no way out of {record.error.error_class}: {record.error.message}; {hint}")

    def rename_lake(self) -> None:
        """With all of its rows, those of former partitions too."""
        path = self.world.info.path
        self.happened["renamed"] += 1
        self.happened["accepted"] += bool(self.happened["cut"])  # rows that were cut from the log are in the renamed table alone
        self.world.lake.rename(path, TablePath(path.database_name, f"{path.table_name}_former_{self.happened['renamed']}"))
        self.archive.clear()

    @contextmanager
    def calling(self) -> Iterator[None]:
        self.is_called = True
        try:
            yield
        finally:
            self.is_called = False

    def compact(self) -> None:
        if self.world.lake.head is not None:
            self.world.lake.foreign_commit(self.world.info.path)
            self.chance.note("lake-compacted")

    def roll_back(self) -> None:
        lake = self.world.lake
        if lake.head is None:
            return
        parent = lake.table.snapshots[lake.head].parent_id
        if parent is not None and parent in lake.table.snapshots:
            lake.roll_back(parent)
            self.check_archive(may_lose=True)
            self.happened["rolled back"] += 1
            self.chance.note("lake-rolled-back")

    def cut(self) -> None:
        """Retention follows what Fluss was told; here of rows that the lake holds."""
        held = {offset for _, offset in self.world.lake.held()} if not self.keyed else set()
        if not self.world.cluster.living:
            return
        start, end = self.world.cluster.logs[self.world.info.table_id][self.bucket]
        stop = min(self.world.cluster.highest_told.get(self.bucket, 0), end)
        records = self.world.cluster.records[self.bucket]
        if not self.keyed:
            stop = next((offset for offset in range(start, stop) if records[offset] is not None and offset not in held), stop)
        if stop > start:
            self.world.cluster.cut(0, self.random.randint(start, stop))
            self.happened["cut"] += 1
            self.chance.note("log-cut")

    def expire(self) -> None:
        """Keeps the snapshots that references name, of which one at least tells who tiered a log table: else only dropping it helps. Every
        other time nothing tells the parents of those that expired."""
        lake, head = self.world.lake, self.world.lake.head
        if head is None:
            return
        if self.random.random() < 0.5:
            self.compact()
        is_told = lake.tiered(lake.table) is not None or lake.table.snapshots[lake.table.head or head].commit_user is not None
        if is_told or self.keyed:
            self.world.lake.expire_all_but_head(forgets=self.happened["expired"] % 2 == 1)
            self.happened["expired"] += 1
            self.chance.note("lake-expired")
            if not self.is_ours:
                self.flinks.begin()

    def kill(self) -> None:
        """Our tierer's process is gone; the table stays with us while its request is unresolved."""
        if self.round is not None:
            self.round = None
            self.outcomes["killed"] += 1
            self.chance.note("tierer-killed")

    def lapse(self) -> None:
        """Our coordinator was away for longer than Fluss waits, which assigns the table to Flink."""
        if self.is_ours:
            self.is_ours = False
            self.chance.note("turn-lost")
