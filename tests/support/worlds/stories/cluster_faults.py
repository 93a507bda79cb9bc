"""Faults of a story that come from the source, the coordinator's store and the clocks."""

from __future__ import annotations

import shutil
import sqlite3
from datetime import timedelta
from pathlib import Path

from support.background import tick
from support.worlds.lake_world import SteppedRound
from support.worlds.stories.damaged_files import DamagedFiles
from support.worlds.stories.model import Model
from support.worlds.stories.rounds import MAX_BACKOFF_S
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.memory.sql_store import SqlStore
from tiering.round.steps import actions as act

YEARS = 3_650


def _put_back(root: Path) -> None:
    """The older copy takes the place of a cluster's folder."""
    shutil.rmtree(root)
    root.with_name("older").rename(root)


class ClusterFaults(DamagedFiles):
    """Each returns what it did, or None where there was nothing to do it to."""

    store_backup: Path | None

    def model_of(self, taken: SteppedRound) -> Model | None:
        """Returns the model of the round's table; None for a table that was dropped."""
        return self.models.get(taken.assignment.path.table_name)

    # what others do to the lake meanwhile

    def compact_in_round(self) -> str | None:
        return self.during_round(lambda taken: self._of_model(taken, "compact"))

    def append_in_round(self) -> str | None:
        return self.during_round(lambda taken: self._of_model(taken, "append"))

    def delete_in_round(self) -> str | None:
        return self.during_round(lambda taken: self._of_model(taken, "delete"))

    def _of_model(self, taken: SteppedRound, action: str) -> str | None:
        if (model := self.model_of(taken)) is None:
            return None
        return {"compact": self.compact, "append": self.append_by_hand, "delete": self.delete_by_hand}[action](model)

    def compact_under_deletes(self) -> str | None:
        """Between the look for the rows that change and the commit that names them."""
        return self.during_round(lambda taken: self._of_model(taken, "compact"), (act.BeginCommit, act.CommitLake))

    def clean_up_orphans(self) -> str | None:
        """Removes files that no snapshot names yet, like a user's clean-up."""

        def clean(taken: SteppedRound) -> str | None:
            folder = self.world.folder.root / "lake"
            files = [file for file in folder.rglob(f"*{taken.assignment.round_id}*") if file.is_file()]
            for file in files:
                file.unlink()
            return f"{len(files)} files" if files else None

        return self.during_round(clean, (act.BeginCommit, act.CommitLake))

    # the source

    def add_column_in_round(self) -> str | None:
        return self.during_round(lambda _: self.add_column())

    def drop_partition_in_round(self) -> str | None:
        """Drops a partition during a round, and then writes rows, which may go to a new one of the same name."""

        def drop(taken: SteppedRound) -> str | None:
            model = self.model_of(taken)
            dropped = self.drop_partition(model if model is not None and model.partitioned else None)
            self.attempt("write", self.write)
            return dropped

        return self.during_round(drop)

    def recreate_in_round(self) -> str | None:
        def recreate(_: SteppedRound) -> str:
            dropped = self.drop()
            self.create()
            self.attempt("write", self.write)
            return dropped

        return self.during_round(recreate)

    def switch_off_in_round(self) -> str | None:
        def switch(taken: SteppedRound) -> str:
            self.world.storage.alter_table(taken.assignment.path, {"table.datalake.enabled": "false"})
            tick(self.world.coordinator)
            return "switched off"

        return self.during_round(switch)

    def expire_leases(self) -> str | None:
        """A round's KV snapshots are superseded while its leases have run out; then it reads."""

        def expire(taken: SteppedRound) -> str | None:
            model = self.model_of(taken)
            if model is None or not model.has_primary_key:
                return None
            self.world.clock.advance(7 * 86_400)
            self.attempt("write", self.write)
            for _ in range(2):
                self.world.storage.take_kv_snapshots(model.info.path)
            self.world.storage.maintenance.run()
            return "leases ran out"

        return self.during_round(expire, (act.RunSplits,))

    def lose_kv_state(self) -> str | None:
        """The present rows, which the log has too."""
        files = [file for file in (self.world.storage.root / "kv").rglob("*") if file.is_file()]
        if not files:
            return None
        self.world.coordinator.close()
        self.world.storage.close()
        for file in files:
            file.unlink(missing_ok=True)
        self.world.reopen()
        return f"{len(files)} files"

    # store and clocks

    def back_up_store(self) -> None:
        """A copy of the coordinator's store as it is now."""
        file = self._store_file()
        self.store_backup = file.with_name("store-backup.db")
        with sqlite3.connect(file) as source, sqlite3.connect(self.store_backup) as copy:
            source.backup(copy)

    def restore_store(self) -> str | None:
        """The coordinator starts on the copy; lake and cluster have gone on."""
        if self.store_backup is None:
            self.back_up_store()
            return None
        self.world.coordinator.close()
        self.world.store.close()
        file = self._store_file()
        for part in file.parent.glob(f"{file.name}*"):
            part.unlink()
        shutil.copy(self.store_backup, file)
        self.world.store = SqlStore(self.world.folder.store_url)
        self.world.coordinator = self.world._start()
        return "store restored"

    def restore_cluster(self) -> str | None:
        """The cluster starts on an older copy of its folder. Rows of one table were tiered since; others come at their offsets."""
        model = self.pick()
        if self.lake_table(model) is None or model.partitioned or self.backup or self.record_of(model) is None:
            return None
        path, tiered, known = model.info.path, self.world.lake.view(model.info.path).ranges, dict(model.rows)
        self.restart_cluster(after_close=lambda root: shutil.copytree(root, root.with_name("older")))
        self.attempt("write", lambda: self.write(model))
        self._tier_only(model)
        ends = self.world.lake.view(path).ranges
        self.restart_cluster(after_close=_put_back)
        if ends == tiered:
            return None
        model.rows = known
        while any(log.log_end <= ends[bucket].tiered for bucket, log in self.world.storage.offsets(model.info).items() if bucket in ends):
            self.attempt("write", lambda: self.write(model))
        return f"{path} from {tiered} to {ends}"

    def forget_dropped_lake_table(self) -> str | None:
        """Forgets a dropped lake table for days, until records of its log are older than their time to live."""
        model = self.pick()
        if self.lake_table(model) is None or self.record_of(model) is None:
            return None
        path, storage = model.info.path, self.world.storage
        self._tier_only(model)
        self.world.by_hand.drop(path)
        self._tier_only(model)
        record = self.record_of(model)
        if record is None or record.error is None:
            return None
        if model.has_primary_key:
            for _ in range(2):
                storage.take_kv_snapshots(path)
        storage.set_table_option(path, "table.log.ttl", "1 d")
        before = {bucket: log.log_start for bucket, log in storage.offsets(model.info).items()}
        self.world.clock.advance(2 * 86_400)
        storage.maintenance.run()
        assert before == {bucket: log.log_start for bucket, log in storage.offsets(model.info).items()}, f"the log of {path} was cut"
        storage.set_table_option(path, "table.log.ttl", None)
        return str(path)

    def record_of(self, model: Model) -> TableRecord | None:
        """The coordinator's, of a table whose rounds begin."""
        record = self.world.coordinator.table_records.get(model.info.table_id)
        return record if record is not None and record.state is not None and record.pause is None else None

    def _tier_only(self, model: Model) -> None:
        """Rounds of what is due, until this table had one."""
        self.world.clock.advance(MAX_BACKOFF_S)
        tick(self.world.coordinator)
        while (taken := self.begin()) is not None:
            self.log.append(self.end(taken))
            if taken.assignment.path == model.info.path:
                return

    def _store_file(self) -> Path:
        return self.world.folder.store_file

    def set_clock(self, days: int) -> str:
        """The wall clock alone; at times the coordinator starts again then."""
        self.world.clock.wall += timedelta(days=days)
        if self.rng.random() < 0.5:
            self.world.restart()
        tick(self.world.coordinator)
        return f"{days} days"
