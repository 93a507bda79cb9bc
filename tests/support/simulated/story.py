"""One story of a simulated deployment: random things in random order, then a time without faults in which everything has to heal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from support.simulated.calls import Callers
from support.simulated.chance import FOCUS
from support.simulated.cluster import FRESHNESS_MS
from support.simulated.deployment import Deployment
from support.simulated.on_call import OnCall
from support.simulated.users import Users
from support.worlds.memory_store import ALL_ROWS
from tiering.coordinator.calls.resume_tiering import resume_tiering
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.memory.history import HistoryRange
from tiering.model.states import TableState
from tiering.model.tables import BucketKey, TableInfo
from tiering.procedures.resume_tiering import ResumeTiering

HEALING_TURNS = 80
"""Turns of a second of simulated time or two each: back-offs are 5 s at most, leases 20 s."""
QUIET_TURNS = 3
"""Turns after the lake has everything, until all records say so, too."""


UPKEEP_FAULTS = ("rewrite-overtaken", "upkeep-gives-way")
"""Only stories with one of them have upkeep; those of weakened deployments stay as they were."""

NEXT_ACTIONS = 0.5
"""Share of users who read `next_action`; the others read the hint."""


@dataclass(frozen=True)
class Thing:
    """Something that may happen, and the faults that it injects."""

    do: Callable[[], object]
    weight: int
    faults: tuple[str, ...] = ()
    may_be_nested: bool = True
    """No CALL is begun within something that takes its time, for one of them may be what takes it."""


class SimulatedStory:
    """`run` is all of it. For seeds of a time before: `has_every_call` False, without the CALLs that came later; `short_leases` False, and
    every story ends with a restart of the coordinator, hints alone are read, and repairs read a lake that answers.
    """

    def __init__(self, seed: int, only: Collection[str] | None = None, *, has_every_call: bool = True, short_leases: bool = True) -> None:
        self._has_every_call = has_every_call
        self._short_leases = short_leases
        self._ends_with_a_restart = not short_leases or seed % 2 == 0
        self._has_upkeep = has_every_call and short_leases and (only is None or not set(UPKEEP_FAULTS).isdisjoint(only))
        self.world = Deployment(seed, only, short_leases=short_leases, has_upkeep=self._has_upkeep)
        self.users = Users(self.world)
        self.callers = Callers(self.world, self.users)
        if short_leases:
            self.users.sets_back = True
            on_call = OnCall(self.world, self.users)
            self.users.is_next_action_run = lambda record: self.world.random.random() < NEXT_ACTIONS and on_call.follow(record)
        self.world.meanwhile = self._do_one_thing_of_others
        possible = [thing for thing in self._all_things() if only is None or not thing.faults or not set(only).isdisjoint(thing.faults)]
        self._things = possible
        self._among_others = [thing for thing in possible if thing.may_be_nested]

    def _all_things(self) -> list[Thing]:
        world, users = self.world, self.users
        damages = ("lake-compacted", "lake-expired", "lake-rolled-back", "lake-untagged", "lake-table-dropped", "lake-table-renamed")
        calls = ("call-repeated", "round-cancelled", "tierer-fenced", "lease-dropped")
        return [
            Thing(self._advance, 330),
            Thing(self._beat, 120),
            Thing(lambda: world.pass_time(world.random.choice((100, 500, 1_500))), 90),
            Thing(users.append, 80),
            Thing(users.take_snapshot, 25),
            Thing(world.lake.deliver_late, 20, ("commit-request-late",)),
            Thing(world.wire.deliver_late, 15, ("request-late",)),
            Thing(world.deliver_late_beat, 10, ("request-late",)),
            Thing(users.touch_lake, 25, damages),
            Thing(users.cut_log, 5, ("log-cut",)),
            Thing(users.lose_records, 2, ("log-rewritten",)),
            Thing(users.forget_record, 3, ("cluster-record-lost",)),
            Thing(users.drop_table, 2, ("table-dropped", "table-recreated")),
            Thing(users.switch_lake, 3, ("lake-switched",)),
            Thing(users.change_partitions, 8, ("partition-dropped", "partition-remade")),
            Thing(users.make_untierable, 3, ("table-untierable", "column-added")),
            Thing(users.call, 25, calls, may_be_nested=False),
            Thing(users.sweep, 10, may_be_nested=False),
            Thing(users.follow_some_hint, 12, may_be_nested=False),
            Thing(users.kill_tierer, 6, ("tierer-killed",)),
            Thing(users.put_to_sleep, 5, ("tierer-asleep",)),
            Thing(users.copy_process, 3, ("tierer-doubled",)),
            Thing(users.set_clock, 3, ("clock-ahead", "clock-back")),
            Thing(users.restart_coordinator, 4, ("coordinator-restarted",)),
            Thing(users.add_coordinator, 4, ("coordinator-doubled",)),
            Thing(users.silence, 6, ("tierer-asleep",)),
            *(self._newer_things() if self._has_every_call else ()),
            *((Thing(users.want_upkeep, 40, UPKEEP_FAULTS, may_be_nested=False),) if self._has_upkeep else ()),
        ]

    def _newer_things(self) -> list[Thing]:
        """The newer kinds of things. They are separate, so that the stories of old seeds stay the same."""
        return [
            Thing(self.callers.call, 25, ("call-repeated",), may_be_nested=False),
            Thing(self.users.refuse_record, 4, ("record-refused",)),
            Thing(self.users.name_partitions_alike, 3, ("partitions-alike",)),
        ]

    def run(self, steps: int, unexpected: Collection[str] = ()) -> None:
        """Raises AssertionError if safety or liveness is lost. `unexpected`: how no round may end, and what must not be said of a table."""
        for thing in self.world.random.choices(self._things, self._weights(self._things), k=steps):
            thing.do()
            assert self.world.invariants.broken is None, self.world.invariants.broken
        self.heal()
        reported = {row.error_class for row in self.world.store.read_errors(HistoryRange())} | set(self.world.outcomes)
        assert reported.isdisjoint(unexpected), f"{reported & set(unexpected)} came up"

    def _advance(self) -> None:
        tierer = self.world.random.choice(self.world.tierers)
        for _ in range(self.world.random.randint(1, 3)):
            self.world.advance(tierer)

    def _beat(self) -> None:
        self.world.beat(self.world.random.choice(self.world.tierers))

    def _do_one_thing_of_others(self) -> None:
        """Lets a user or another process act during a long step."""
        self.world.random.choices(self._among_others, self._weights(self._among_others))[0].do()

    def _weights(self, things: Sequence[Thing]) -> list[int]:
        """In stories about few faults these come often."""
        factor = 1 if self.world.chance.only is None else FOCUS
        return [thing.weight * (factor if thing.faults else 1) for thing in things]

    # --- the end

    def heal(self) -> None:
        """No more faults: users do what they read, and within bounded time every table is in the lake and says so."""
        world = self.world
        world.chance.faulty = False
        world.former = None
        if self._ends_with_a_restart and world.chance.may("coordinator-restarted", "coordinator-doubled", "coordinator-killed"):
            world.restart_coordinator()
        self._bring_tierers_back()
        while world.wire.late:
            world.wire.deliver_late()
        self._bring_tables_back()
        self._until_whole()
        while world.lake.late:
            world.lake.deliver_late()
        self._until_whole()
        self._check_records()

    def _until_whole(self) -> None:
        """Users do what they read, tierers tier."""
        quiet_turns = 0
        for _ in range(HEALING_TURNS):
            for record in self.users.failed_for_good():
                self.users.follow(record)
            self._turn()
            quiet_turns = quiet_turns + 1 if self._is_whole() else 0
            if quiet_turns > QUIET_TURNS:
                return
        raise AssertionError(self._what_is_stuck())

    def _bring_tierers_back(self) -> None:
        """Wakes sleeping tierers, and lets the operator replace a fenced process."""
        world = self.world
        world.tierers = world.tierers[:2]
        for tierer in list(world.tierers):
            tierer.asleep = False
            world.beat(tierer)
            if tierer.fenced or (world.chance.may("tierer-killed") and world.random.random() < 0.5):
                world.replace_process(tierer)

    def _bring_tables_back(self) -> None:
        """Operators resume, enable and mend what they stopped themselves."""
        world = self.world
        for table in world.cluster.tables():
            world.cluster.settle(table)
            world.cluster.change(table, lake_enabled=True)
            if table.refusal is not None:
                self.users.change_columns(world.cluster.table(table.path), None)
        world.clock.wall_offset_ms = min(world.clock.wall_offset_ms, 0)  # a clock that is ahead is set right
        world.pass_time(1)
        for table in world.cluster.tables():
            request = ResumeTiering(table.path, None, caller="ann")
            self.users.perform(lambda request=request: resume_tiering(world.coordinator.call_parts, request))  # type: ignore[misc]

    def _turn(self) -> None:
        world = self.world
        for tierer in list(world.tierers):
            world.beat(tierer)
            while tierer.running:
                world.advance(tierer)
            world.beat(tierer)
        for table in world.cluster.tables():
            if table.primary_key and self._lacks_a_snapshot(table):
                world.cluster.take_kv_snapshots(table.path)
        world.pass_time(FRESHNESS_MS)

    def _lacks_a_snapshot(self, table: TableInfo) -> bool:
        """Returns whether the table needs a KV snapshot, which a cluster takes from time to time: one covers a log that was cut."""
        newest = self.world.cluster.kv_snapshots(table)
        logs = self.world.cluster.logs[table.table_id]
        return any(bucket not in newest or newest[bucket].log_offset < logs[bucket][0] for bucket in self.world.cluster.buckets(table))

    def _is_whole(self) -> bool:
        """Whether every table is at rest without an error, and its lake has been told of every record there is."""
        records = self.world.coordinator.table_records.live()
        return not self._behind() and all(
            record.error is None and record.state is not TableState.FAILED and not self._went_down(record) for record in records
        )

    def _went_down(self, record: TableRecord) -> bool:
        """Returns whether no process has the table's round any more: until the service timeout its landed commit is unknown, too."""
        living = {round_id for tierer in self.world.tierers for round_id in tierer.running}
        return record.state is TableState.TIERING and (record.round is None or record.round.round_id not in living)

    def _behind(self) -> list[str]:
        """Buckets whose lake is not at the log's end."""
        return [
            f"{table.path} {bucket}: {self._tiered(table).get(bucket, 0)} of {self.world.cluster.logs[table.table_id][bucket]}"
            for table in self.world.cluster.tables()
            for bucket in self.world.cluster.buckets(table)
            if self._tiered(table).get(bucket, self.world.cluster.logs[table.table_id][bucket][0])
            < self.world.cluster.logs[table.table_id][bucket][1]
        ]

    def _tiered(self, table: TableInfo) -> dict[BucketKey, int]:
        view = self.world.lake.view(table.path)
        if view is None or view.marker is None or view.marker.table_id != table.table_id:
            return {}
        return {bucket: reached.tiered for bucket, reached in view.marker.buckets.items()}

    def _what_is_stuck(self) -> str:
        records = self.world.coordinator.table_records.live()
        stuck = [f"{record.path} {record.state} pause={record.pause} retry={record.retry_deadline} {record.error}" for record in records]
        return f"not healed: {self._behind()}; {stuck}; {dict(self.world.outcomes)}"

    def _check_records(self) -> None:
        """Coordinator and cluster know what the lake holds, and no lease of a dead process keeps a snapshot."""
        world = self.world
        assert not self._short_leases or not world.cluster.held_leases, f"no round runs, and {list(world.cluster.held_leases)} are held"
        world.pass_time(30_000)
        for tierer in world.tierers:
            assert tierer.leases is not None
            for lease in [name for name in world.cluster.held_leases if not name.startswith(tierer.leases._lease_id)]:
                assert any(other.leases is not None and other.leases._lease_id == lease for other in world.tierers), f"{lease} leaked"
        for row in world.store.rounds(limit=ALL_ROWS):
            latest = next((record.round for record in world.store.load() if record.table_id == row.table_id), None)
            is_latest = latest is not None and latest.round_id == row.round_id
            assert row.state.is_final or is_latest, f"round {row.round_id} of {row.table_name} never ends"
        for table in world.cluster.tables():
            tiered = self._tiered(table)
            record = world.coordinator.table_records.get(table.table_id)
            if tiered and record is not None:
                recorded = world.cluster.recorded.get(table.table_id)
                for copy in (record.lake.recorded, recorded):
                    assert copy is not None, f"what the lake holds of {table.path} is not recorded"
                    for bucket in world.cluster.buckets(table):
                        assert copy.offsets.get(bucket, 0) == tiered.get(bucket, 0), f"{table.path}: {copy} of {tiered}"
