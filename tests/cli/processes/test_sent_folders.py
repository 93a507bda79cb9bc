"""A data folder from another person: reading it opens no file outside of it, and never waits for a pipe."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy as sa

from support.running.watched_folder import Watch, watched
from support.worlds.data_folders import FolderWorld
from tiering.cli.doctor.service import Service
from tiering.cli.processes.data_folder import open_data_folder, read_data_folder
from tiering.cli.sql.offline_engine import DuckDbEngine
from tiering.cluster.registry import EMBEDDED
from tiering.errors import LakewardError, SetupError
from tiering.model.tables import TablePath
from tiering.validate.child import ClusterValidation


@dataclass(frozen=True)
class Sent:
    """A folder with the tiered table sales.orders, and another one that is none of its business."""

    root: Path
    outside: Path
    watch: Watch

    def validate(self) -> list[str]:
        """Returns the problems."""
        folder = read_data_folder(self.root)
        validation = ClusterValidation(EMBEDDED, folder.cluster, "iceberg", folder.read_only_lake_properties)
        results = validation.run(TablePath("sales", "orders"), "rows")
        return [result.details or "" for result in results if result.ok is False]

    def query(self) -> None:
        engine = DuckDbEngine(self.root, "iceberg", {})
        try:
            engine.execute("SELECT count(*) FROM fluss.sales.orders")
            engine.execute("SELECT * FROM sys.lake_tiering_status")
        finally:
            engine.close()

    def doctor(self) -> None:
        list(Service("127.0.0.1:1", False, None).lake(self.root))


LOOKS: tuple[Callable[[Sent], object], ...] = (Sent.validate, Sent.query)


@pytest.fixture
def sent(tmp_path: Path) -> Iterator[Sent]:
    root, outside = tmp_path / "data", tmp_path / "outside"
    outside.mkdir()
    world = FolderWorld(root)
    orders = world.table("orders")
    world.append(orders, 0, 20)
    world.tier(orders)
    world.close()
    with watched(outside) as watch:
        yield Sent(root, outside, watch)


def test_an_honest_one_is_fine(sent: Sent) -> None:
    for look in (*LOOKS, Sent.doctor):
        look(sent)
    assert sent.watch.touched() == []


@pytest.mark.parametrize(
    "name", ["lake", "cluster", "coordinator.db", "lake-catalog.db", "cluster/meta.db", "cluster/log", "cluster/log/1"]
)
def test_a_link_out_of_it_is_not_followed(sent: Sent, name: str) -> None:
    part = sent.root / name
    shutil.move(part, sent.outside / "moved")
    part.symlink_to(sent.outside / "moved")
    sent.watch.touched()
    for look in (*LOOKS, Sent.doctor):
        with pytest.raises(SetupError, match="outside of the data folder"):
            look(sent)
    assert sent.watch.touched() == []


def test_a_folder_may_itself_be_reached_by_a_link(sent: Sent, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(sent.root)
    assert read_data_folder(tmp_path / "link").root == sent.root


def test_a_start_refuses_links_in_the_clusters_folders_alone(sent: Sent) -> None:
    shutil.move(sent.root / "lake", sent.outside / "lake")
    (sent.root / "lake").symlink_to(sent.outside / "lake")
    open_data_folder(sent.root)  # an operator's own: the lake on another disk
    (sent.root / "cluster" / "log" / "99").symlink_to(sent.outside)
    with pytest.raises(SetupError, match="outside of the data folder"):
        open_data_folder(sent.root)


def test_a_version_that_is_no_file_is_not_waited_for(sent: Sent) -> None:
    version = sent.root / "VERSION"
    for make in (lambda: os.mkfifo(version), lambda: version.symlink_to("/dev/zero"), lambda: version.symlink_to(sent.outside / "x")):
        version.unlink()
        make()
        for opened in (read_data_folder, open_data_folder):
            with pytest.raises(SetupError):
                opened(sent.root)
    version.unlink()
    version.write_bytes(b"\x1b[31m" + b"x" * 10_000_000)
    with pytest.raises(SetupError) as caught:
        read_data_folder(sent.root)
    assert len(caught.value.message) < 1_000
    assert "\x1b" not in caught.value.message
    assert sent.watch.touched() == []


@pytest.mark.parametrize("path", ["{outside}/x.arrow", "../../outside/x.arrow", "log/../../../outside/x.arrow", "meta.db", "log"])
def test_a_segment_elsewhere_is_not_opened(sent: Sent, path: str) -> None:
    segments = list((sent.root / "cluster" / "log").rglob("*.arrow"))
    for segment in segments:
        shutil.copy(segment, sent.outside / "x.arrow")
    with sa.create_engine(f"sqlite:///{sent.root / 'cluster' / 'meta.db'}").begin() as connection:
        connection.execute(sa.text("UPDATE segments SET path = :path"), {"path": path.format(outside=sent.outside)})
    sent.watch.touched()
    assert "does not belong to it" in str(sent.validate())
    assert sent.watch.touched() == []


def test_a_segment_that_is_a_link_is_not_opened(sent: Sent) -> None:
    for number, segment in enumerate((sent.root / "cluster" / "log").rglob("*.arrow")):
        shutil.move(segment, sent.outside / f"{number}.arrow")
        segment.symlink_to(sent.outside / f"{number}.arrow")
    sent.watch.touched()
    assert "not a regular file" in str(sent.validate())
    assert sent.watch.touched() == []


REFUSED = [("coordinator.db", Sent.query), *((name, look) for name in ("lake-catalog.db", "cluster/meta.db") for look in LOOKS)]


@pytest.mark.parametrize(("database", "look"), REFUSED)
def test_a_database_that_would_run_sql_is_refused(sent: Sent, database: str, look: Callable[[Sent], object]) -> None:
    with sa.create_engine(f"sqlite:///{sent.root / database}").begin() as connection:
        connection.exec_driver_sql("CREATE VIEW v AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x FROM c) SELECT x FROM c")
    with pytest.raises(LakewardError, match="which Lakeward's databases never have"):
        look(sent)
