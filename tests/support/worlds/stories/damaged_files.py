"""Faults of a story: files that were removed, cut or changed behind everybody's back. Each can be put back, as from a backup."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from support.worlds.stories.faulty_rounds import FaultyRounds
from support.worlds.stories.lake_damage import LakeDamage
from support.worlds.stories.model import Model


class DamagedFiles(FaultyRounds, LakeDamage):
    """`backup`: what the damaged files held; `damaged`: what they hold now."""

    backup: dict[Path, bytes]
    damaged: dict[Path, bytes | None]

    @property
    def lake_is_damaged(self) -> bool:
        """Returns the same as `LakeDamage.lake_is_damaged`."""
        return any(file.is_relative_to(self.world.folder.root / "lake") for file in self.backup)

    def put_back(self) -> list[str]:
        """Restores every damaged file that its table may still need, and whose name was not reused since. Returns their names."""
        restored = [
            file for file in self.backup if file.parent.is_dir() and (file.read_bytes() if file.exists() else None) == self.damaged[file]
        ]
        for file in restored:
            file.write_bytes(self.backup[file])
        self.backup.clear()
        return [file.name for file in restored]

    def damage(self, files: list[Path], change: Callable[[bytes], bytes | None]) -> str | None:
        """One of them; None removes it."""
        whole = [file for file in files if file not in self.backup and file.is_file()]
        if not whole:
            return None
        file = self.rng.choice(sorted(whole))
        content = file.read_bytes()
        if (changed := change(content)) == content:
            return None
        self.backup[file], self.damaged[file] = content, changed
        if changed is None:
            file.unlink()
        else:
            file.write_bytes(changed)
        return str(file.relative_to(self.world.folder.root))

    def gone(self, _: bytes) -> None:
        """The whole file."""

    def cut(self, content: bytes) -> bytes:
        return content[: self.rng.randrange(len(content))]

    def flipped(self, content: bytes) -> bytes:
        at = self.rng.randrange(len(content))
        return content[:at] + bytes([content[at] ^ 1 << self.rng.randrange(8)]) + content[at + 1 :]

    # the lake

    def damage_data_file(self, change: Callable[[bytes], bytes | None]) -> str | None:
        model = self.lake_table()
        return None if model is None else self.damage(self._data_files(model), change)

    def _data_files(self, model: Model) -> list[Path]:
        path = model.info.path
        return self.world.by_hand.data_files(path) if self.world.by_hand.line(path) else []

    def remove_manifest(self) -> str | None:
        if (model := self.lake_table()) is None or not self.world.by_hand.line(model.info.path):
            return None
        files = self.lake_files(model, "manifest/*" if self.world.lake_format == "paimon" else "metadata/*.avro")
        newest = sorted(files, key=lambda file: file.stat().st_mtime_ns)[-2:]
        return self.damage(newest, self.gone)

    def damage_metadata(self, change: Callable[[bytes], bytes | None]) -> str | None:
        """Damages the metadata that the catalog names, or the newest snapshot."""
        if (model := self.lake_table()) is None or not self.world.by_hand.line(model.info.path):
            return None
        if self.world.lake_format == "paimon":
            return self.damage(self.lake_files(model, f"snapshot/snapshot-{self.world.by_hand.head(model.info.path)}"), change)
        location = self.world.iceberg_catalog().load_table(str(model.info.path)).metadata_location
        return self.damage([Path(location.removeprefix("file://"))], change)

    def lake_files(self, model: Model, pattern: str) -> list[Path]:
        files = self.world.by_hand.data_files(model.info.path)
        metadata = Path(files[0]) if files else None
        folder = metadata
        while folder is not None and not list(folder.glob("metadata" if self.world.lake_format == "iceberg" else "snapshot")):
            folder = folder.parent
        return [] if folder is None else [file for file in folder.glob(pattern) if file.is_file()]

    # the cluster

    def damage_segment(self) -> str | None:
        """The newest ones are what rounds read."""
        segments = sorted((self.world.storage.root / "log").rglob("*.arrow"), key=lambda file: file.stat().st_mtime_ns)
        return self.damage(segments[-2:], self.cut)

    def remove_kv_snapshot(self) -> str | None:
        return self.damage([file for file in (self.world.storage.root / "kv-snapshots").rglob("*") if file.is_file()], self.gone)
