"""A full disk, under the lake's data, its metadata, or store and cluster: said plainly, nothing lost, and it goes on by itself."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.running.cluster_of_processes import Deployment
from support.running.processes import wait_for
from tiering.errors import LakewardError
from tiering.lake.iceberg.lake import IcebergLake
from tiering.model.tables import TablePath

ORDERS = TablePath("sales", "orders")
COUNT = 900
DISK_BYTES = 32 << 20
NO_SPACE = "No space left on device"


@dataclass(frozen=True)
class Disk:
    """A small file system in memory."""

    folder: Path

    def mount(self) -> None:
        self.folder.mkdir(parents=True)
        mounting = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(self.folder)]
        done = subprocess.run(mounting, capture_output=True, text=True)
        if done.returncode != 0:
            why = f"test_file_too_large does without: {done.stderr.strip()}"
            pytest.skip(f"a full disk needs a file system of its own, which this user may not mount; {why}")

    def unmount(self) -> None:
        if self.folder.is_mount():
            subprocess.run(["umount", "--lazy", str(self.folder)], check=True)

    def fill(self) -> None:
        """Fills the disk to the last byte."""
        with (self.folder / "filler").open("ab", buffering=0) as filler:
            for size in (1 << 20, 4096, 1):
                try:
                    while True:
                        filler.write(b"x" * size)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def free(self) -> None:
        (self.folder / "filler").unlink()


@dataclass(frozen=True)
class Disks:
    deployment: Deployment
    lake_properties: dict[str, str]
    table: Path
    state: Disk
    data: Disk
    metadata: Disk


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[Disks]:
    """State store and cluster on one, the lake table's data files on another, its metadata on a third."""
    deployment = Deployment(tmp_path)
    table = tmp_path / "lake" / ORDERS.database_name / ORDERS.table_name
    properties = {**deployment.data.lake_properties, "warehouse": f"file://{tmp_path / 'lake'}"}
    disks = Disks(deployment, properties, table, Disk(deployment.data.root), Disk(table / "data"), Disk(table / "metadata"))
    try:
        for disk in (disks.state, disks.data, disks.metadata):
            disk.mount()
        deployment.start_coordinator(*(word for name, value in properties.items() for word in ("--lake-property", f"{name}={value}")))
        deployment.start_tierer("only")
        yield disks
    finally:
        deployment.close()
        for disk in (disks.state, disks.data, disks.metadata):
            disk.unmount()


def test_a_full_disk_is_named_and_nothing_is_lost_when_there_is_room_again(disks: Disks, monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = disks.deployment
    deployment.create(ORDERS)
    monkeypatch.setattr("tiering.lake.iceberg.lake.new_location", lambda *_: f"file://{disks.table}")
    with deployment.cluster() as cluster:
        IcebergLake(disks.lake_properties).ensure_table(cluster.table(ORDERS))  # empty, and where the disks are
    deployment.append(ORDERS, 0, COUNT)
    deployment.wait_tiered(ORDERS)
    done = COUNT
    for disk, phase in ((disks.data, "WRITE"), (disks.metadata, "LAKE_COMMIT")):
        disk.fill()
        deployment.append(ORDERS, done, COUNT)
        done += COUNT
        status = wait_for("the table fails", lambda: latest if (latest := deployment.status(ORDERS)).error_class else None)
        assert (status.error_class, status.error_phase, status.error_retryable) == ("LakeUnavailable", phase, True)
        assert status.last_error is not None
        assert NO_SPACE in status.last_error
        disk.free()
        deployment.wait_tiered(ORDERS)
        deployment.assert_exact(ORDERS, done, disks.lake_properties)

    disks.state.fill()
    with pytest.raises(LakewardError, match=NO_SPACE):
        deployment.append(ORDERS, done, COUNT)
    log = deployment.processes[0]
    wait_for("the coordinator says what its store lacks", lambda: "database or disk is full" in log.output())
    assert deployment.status(ORDERS).lake_records == done  # who looks is answered all the same
    disks.state.free()
    deployment.append(ORDERS, done, COUNT)
    deployment.wait_tiered(ORDERS)
    deployment.assert_exact(ORDERS, done + COUNT, disks.lake_properties)
