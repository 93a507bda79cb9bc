"""The database of the state store is gone under load: several tierers, several tables, writers that go on.

While it is gone every call that changes something fails with the same error, and reads of the tables' states are answered. Afterwards all
goes on by itself: the same processes, every table tiered, each row in the lake once, and validation finds each table equal to its log.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from support.lakes.lake_proof import assert_chain, marker_of
from support.running.cluster_of_processes import Deployment
from support.running.postgresql import PostgresqlServer
from support.running.processes import Process, wait_for
from sys_tables.catalog_client import SystemCatalog
from tiering.client import LakewardClient
from tiering.errors import LakewardError
from tiering.model.tables import TablePath

TABLES = tuple(TablePath("sales", f"orders_{number}") for number in range(6))
TIERERS = 3
ROWS = 12
"""An append's, to three buckets."""
SETTLED_SECONDS = 240
"""Back-offs of rounds that failed meanwhile, on a machine on which much else runs."""
STEADY_ROUNDS = 2
"""Commits that each table has before the database goes away."""


@dataclass
class LoadedService:
    """A coordinator whose state is in `database`, tierers, and a thread that writes to every table."""

    folder: Path
    database: PostgresqlServer
    deployment: Deployment = field(init=False)
    written: Counter[TablePath] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    """Calls that failed while the database was gone, by class and message of their error, the database's own words left out."""
    processes: list[Process] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.deployment = Deployment(self.folder)

    def begin(self) -> None:
        """Starts the processes and makes the tables."""
        state = {"LAKEWARD_STATE": self.database.new_database()}
        self.processes.append(self.deployment.start_coordinator(**state))
        for path in TABLES:
            self.deployment.create(path)
        self.processes += [self.deployment.start_inline_tierer(f"tierer-{number}") for number in range(TIERERS)]

    @contextmanager
    def load(self) -> Iterator[None]:
        """Writes to every table in turn, as fast as it is answered. Raises what stopped a writer."""
        ended, failures = threading.Event(), list[BaseException]()

        def write() -> None:
            try:
                while not ended.is_set():
                    for path in TABLES:
                        self.deployment.append(path, self.written[path], ROWS)
                        self.written[path] += ROWS
            except BaseException as error:
                failures.append(error)
                raise

        writer = threading.Thread(target=write)
        writer.start()
        try:
            yield
        finally:
            ended.set()
            writer.join()
        assert not failures, failures

    def commits(self) -> Counter[str]:
        """How many commits of rounds the store knows, by table."""
        with SystemCatalog(self.deployment.uri) as catalog:
            return Counter(row["table_name"] for row in catalog.read("lake_commits") if row["state"] == "ACKED")

    def wait_for_rounds(self, more: int = STEADY_ROUNDS) -> None:
        """Until every table has so many more commits."""
        before = self.commits()
        enough = lambda: all(self.commits()[path.table_name] >= before[path.table_name] + more for path in TABLES)  # noqa: E731
        wait_for("rounds of every table", enough, SETTLED_SECONDS)

    def be_refused(self, seconds: float) -> None:
        """For so long makes calls that change something, of which none may succeed, and reads, of which none may fail."""
        end = time.monotonic() + seconds
        with LakewardClient(self.deployment.uri) as client:
            changes: tuple[Callable[[TablePath], object], ...] = (
                lambda path: client.pause_tiering(path, reason="no caller may"),
                lambda path: client.retry_tiering(path),
                lambda path: client.tier_table(path, wait=False),
            )

            def refused() -> bool:
                for change, path in zip(changes, TABLES, strict=False):
                    self._refused(change, path)
                assert {status.table_name for status in client.list_tiering_statuses()} == {path.table_name for path in TABLES}
                return time.monotonic() > end

            wait_for("the outage is over", refused, seconds + SETTLED_SECONDS)

    def _refused(self, change: Callable[[TablePath], object], path: TablePath) -> None:
        try:
            change(path)
        except LakewardError as error:
            self.refusals[f"{error.error_class}: {error.message.partition(':')[0]}"] += 1
        else:
            raise AssertionError(f"a call changed {path} while the database was gone")

    def assert_well(self) -> None:
        """The processes are those of the beginning, and each table is in the lake as its log has it."""
        for path in TABLES:
            self.deployment.wait_tiered(path, SETTLED_SECONDS)
        assert [process.popen.poll() for process in self.processes] == [None] * len(self.processes)
        for path in TABLES:
            self.deployment.assert_exact(path, self.written[path])
            assert_chain(self.deployment.lake_properties, path)
            self.deployment.lakeward("validate", str(path))
        self._assert_sys()

    def _assert_sys(self) -> None:
        """`sys` shows the lake's newest round of each table, and no round or grant that is left open; no call of the outage is left."""
        with SystemCatalog(self.deployment.uri) as catalog:
            commits = {row["round_id"]: row["state"] for row in catalog.read("lake_commits")}
            paused = [row["table_name"] for row in catalog.read("lake_tiering_status") if row["paused"]]
        markers = [marker_of(self.deployment.lake_properties, path) for path in TABLES]
        assert {commits.get(marker.round_id) for marker in markers if marker is not None} <= {"ACKED", "RECONCILED"}
        assert not set(commits.values()) - {"ACKED", "RECONCILED", "ABORTED"}
        assert paused == []

    def close(self) -> None:
        self.deployment.close()


def be_without_database(folder: Path, database: PostgresqlServer, seconds: float) -> LoadedService:
    """The whole story with an outage of so many seconds; the service as it is at its end, closed. Raises AssertionError."""
    service = LoadedService(folder, database)
    try:
        service.begin()
        with service.load():
            service.wait_for_rounds()
            database.stop(immediate=True)
            try:
                service.be_refused(seconds)
            finally:
                database.start()
            service.wait_for_rounds()
        service.assert_well()
    finally:
        service.close()
    return service
