"""A caller who may know of some tables sees nothing of the others in any listing, number, hint or history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from support.clusters.memory_cluster import log_table
from support.operators import pause
from support.worlds.coordinator_world import START, World
from sys_tables.declare.scan import ScanRequest
from sys_tables.registry import default_registry
from tiering.access.grants import Grants
from tiering.access.identity import Authentication, Identity, acting_as
from tiering.access.policies.effective import EffectivePrivileges
from tiering.access.privileges import SERVICE, Privilege, Resource
from tiering.access.requirements import EVERY_CALLER, PrivilegeTarget, Requirement
from tiering.coordinator.decisions.records import EventRecord, Level
from tiering.coordinator.interface import History, HistoryRange
from tiering.coordinator.memory.sql_store import SqlStore, sqlite_url
from tiering.coordinator.memory.store import Writes
from tiering.coordinator.status.live_history import LiveHistory
from tiering.errors import AccessDenied, ClusterUnavailable, UnknownDatabase, UnknownTable
from tiering.model.tables import TablePath

ANA = Identity("ana", Authentication.TOKEN)
OTTO = Identity("otto", Authentication.TOKEN, frozenset({"ops"}))
POLICIES = """
permit (principal == User::"ana", action in Action::"read", resource == Table::"sales.orders");
permit (principal == User::"ana", action in Action::"read", resource is Table) when { resource.name like "open*" };
permit (principal in Group::"ops", action, resource);
"""
HIDDEN = TablePath("hr", "salaries")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    names = [("sales", "orders"), ("sales", "returns"), ("hr", "salaries"), ("mart", "open_days")]
    new_world = World(tuple(log_table(number + 1, TablePath(*name)) for number, name in enumerate(names)))
    (tmp_path / "policy.cedar").write_text(POLICIES)
    new_world.coordinator.grants = Grants(tmp_path / "policy.cedar")
    for table in new_world.tables:
        new_world.append(10, table=table)
    new_world.due()
    tierer = new_world.tierer()
    for _ in new_world.tables:
        tierer.fail(tierer.get())
    yield new_world
    new_world.coordinator.close()


def test_statuses_and_what_is_counted_of_them(world: World) -> None:
    with acting_as(ANA):
        view = world.coordinator.view()
        assert [(status.database_name, status.table_name) for status in view.table_statuses()] == [
            ("mart", "open_days"),
            ("sales", "orders"),
        ]
        columns = view.status_columns()
        assert columns.num_rows == 2
        assert columns.column("table_name").to_pylist() == ["open_days", "orders"]
        assert columns.column("pending_records").to_pylist() == [10, 10]
        assert list(view.table_statuses("hr", "salaries")) == list(view.table_statuses("hr", "nothing")) == []
    with acting_as(OTTO):
        assert world.coordinator.view().status_columns().num_rows == 4
    assert world.coordinator.view().status_columns().num_rows == 4


def test_effective_privileges_are_those_that_are_enforced(world: World) -> None:
    def rows(identity: Identity) -> list[EffectivePrivileges]:
        with acting_as(identity):
            return list(world.coordinator.view().effective_privileges())

    tables = [("sales", "orders"), ("mart", "open_days")]
    assert {(row.database_name, row.table_name): row.privileges for row in rows(ANA)} == dict.fromkeys(tables, "DESCRIBE, SELECT")
    assert {row.principal for row in rows(ANA)} == {"ana"}
    assert {row.principal: row.groups for row in rows(OTTO)} == {"otto": "ops", "ana": None}
    places = [SERVICE, *map(Resource, ("hr", "mart", "sales")), *(Resource.of_table(table.path) for table in world.tables)]
    for identity in (ANA, OTTO):
        access = world.coordinator.grants.access_of(identity)
        shown = {
            (row.database_name, row.table_name, right)
            for row in rows(OTTO)
            if row.principal == identity.principal
            for right in row.privileges.split(", ")
        }
        allowed = {(place.database, place.name, right) for place in places for right in Privilege if access.may(right, place)}
        assert shown == allowed


def test_a_call_is_allowed_for_those_who_have_its_privilege_on_a_table_that_they_may_see(world: World) -> None:
    calls = {
        "select": Requirement(Privilege.SELECT, PrivilegeTarget.TABLE),
        "operate": Requirement(Privilege.OPERATE, PrivilegeTarget.ROUND),
        "service": Requirement(Privilege.OPERATE, PrivilegeTarget.SERVICE),
        "free": EVERY_CALLER,
    }

    def allowed() -> set[str]:
        return {name for name, requirement in calls.items() if world.coordinator.view().may_call(requirement)}

    with acting_as(ANA):
        assert allowed() == {"select", "free"}
        assert [row.is_caller for row in world.coordinator.view().effective_privileges()] == [True, True]
    with acting_as(Identity("zoe", Authentication.TOKEN)):
        assert allowed() == {"free"}
    with acting_as(OTTO):
        assert allowed() == calls.keys()
        assert {(row.principal, row.is_caller) for row in world.coordinator.view().effective_privileges()} == {
            ("otto", True),
            ("ana", False),
        }
    world.coordinator.grants = Grants()
    assert allowed() == calls.keys()


def test_a_call_for_a_lake_table_is_allowed_without_the_cluster(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ClusterUnavailable("the cluster is away")

    for method in ("tables", "databases"):
        monkeypatch.setattr(world.cluster, method, refuse)
    with acting_as(ANA):
        assert world.coordinator.view().may_call(Requirement(Privilege.SELECT, PrivilegeTarget.TABLE))


def test_before_the_first_table_a_call_is_allowed_for_those_who_have_its_privilege_on_a_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = World(())
    monkeypatch.setattr(empty.cluster, "databases", lambda: ["sales"])
    (tmp_path / "policy.cedar").write_text(POLICIES)
    empty.coordinator.grants = Grants(tmp_path / "policy.cedar")
    operate = Requirement(Privilege.OPERATE, PrivilegeTarget.TABLE)
    allowed = []
    for identity in (OTTO, ANA):
        with acting_as(identity):
            allowed.append(empty.coordinator.view().may_call(operate))
    assert allowed == [True, False]
    empty.coordinator.close()


def test_an_admin_learns_nothing_of_a_table_that_is_hidden_from_the_admin(tmp_path: Path, world: World) -> None:
    (tmp_path / "policy.cedar").write_text(POLICIES + 'permit (principal == User::"ana", action == Action::"ADMIN", resource);')
    world.coordinator.grants = Grants(tmp_path / "policy.cedar", users=lambda: [OTTO])
    with acting_as(ANA):
        rows = list(world.coordinator.view().effective_privileges())
        assert "otto" in {row.principal for row in rows}
        assert {row.table_name for row in rows} == {None, "orders", "open_days"}
        assert {row.database_name for row in rows} == {None, "sales", "mart"}
        assert list(world.coordinator.view().effective_privileges("zoe")) == []
        assert {row.principal for row in world.coordinator.view().effective_privileges("otto", "sales", "orders")} == {"otto"}


def test_names(world: World) -> None:
    with acting_as(ANA):
        view = world.coordinator.view()
        assert list(view.databases()) == ["mart", "sales"]
        assert [table.path.table_name for table in view.tables("sales")] == ["orders"]
        with pytest.raises(UnknownTable, match=r"there is no table hr\.salaries"):
            view.table(HIDDEN)
        with pytest.raises(UnknownDatabase):
            view.tables("hr")


@pytest.mark.parametrize("read", ["read_rounds", "read_errors", "read_events"])
def test_history(world: World, read: str) -> None:
    def tables() -> set[tuple[str | None, str | None]]:
        rows = getattr(world.coordinator.view().history, read)(HistoryRange())
        return {(row.database_name, row.table_name) for row in rows}

    assert ("hr", "salaries") in tables()
    with acting_as(ANA):
        assert tables() == {("sales", "orders"), ("mart", "open_days")}


def test_how_far_back_history_is_kept(world: World) -> None:
    [visible, hidden] = [("sales", "orders"), ("hr", "salaries")]
    assert set(world.coordinator.view().history.oldest_rounds([visible, hidden])) == {visible, hidden}
    with acting_as(ANA):
        assert set(world.coordinator.view().history.oldest_rounds([visible, hidden])) == {visible}


class CountingHistory:
    """A store that counts the rows that are drawn from it."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self.drawn = 0

    def __getattr__(self, name: str) -> Any:
        read = getattr(self._store, name)
        return read if name == "paths_of" else lambda wanted: self._counted(read(wanted))

    def _counted(self, rows: Iterator[EventRecord]) -> Iterator[EventRecord]:
        for row in rows:
            self.drawn += 1
            yield row


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[CountingHistory]:
    """Events of four tables and of none: most of them of tables that ana may not know of."""
    store = SqlStore(sqlite_url(tmp_path / "coordinator.db"))
    written = [
        EventRecord(START, Level.INFO, "TABLE_PENDING", f"{name} {number}", None, database, name)
        for database, name, count in (("hr", "salaries", 3_000), ("sales", "orders", 5), ("mart", "open_days", 4), (None, None, 3))
        for number in range(count)
    ]
    store.apply(store.take_over(), Writes(events=tuple(written)))
    yield CountingHistory(store)
    store.close()


def seen_by(identity: Identity, world: World, stored: CountingHistory, wanted: HistoryRange) -> Counter[str | None]:
    history = LiveHistory(cast(History, stored), {}, world.coordinator.grants.access_of(identity))
    return Counter(row.table_name for row in history.read_events(wanted))


def test_no_row_of_a_hidden_table_is_read(world: World, stored: CountingHistory) -> None:
    assert seen_by(ANA, world, stored, HistoryRange()) == {"orders": 5, "open_days": 4}
    assert stored.drawn == 9
    assert seen_by(OTTO, world, stored, HistoryRange()) == {"salaries": 3_000, "orders": 5, "open_days": 4, None: 3}


@pytest.mark.parametrize("name", ["salaries", "nothing", "x" * 100_000])
def test_a_read_of_a_hidden_table_reads_as_much_as_one_of_an_unknown_table(world: World, stored: CountingHistory, name: str) -> None:
    assert seen_by(ANA, world, stored, HistoryRange("hr", name)) == {}
    assert stored.drawn == 0
    assert seen_by(ANA, world, stored, HistoryRange("sales", "orders")) == {"orders": 5}


def test_a_read_of_named_tables_reads_the_visible_ones_alone(world: World, stored: CountingHistory) -> None:
    named = HistoryRange(paths=frozenset({("hr", "salaries"), ("sales", "orders"), ("hr", "nothing")}))
    assert seen_by(ANA, world, stored, named) == {"orders": 5}
    assert stored.drawn == 5


def test_a_user_who_sees_nothing_reads_nothing(world: World, stored: CountingHistory) -> None:
    assert seen_by(Identity("nobody", Authentication.TOKEN), world, stored, HistoryRange(page_rows=1)) == {}
    assert stored.drawn == 0


def test_rows_that_are_made_of_records(world: World) -> None:
    reads: list[Callable[[], object]] = [
        lambda: {row.table_name for row in world.coordinator.view().buckets()},
        lambda: list(world.coordinator.view().buckets("hr", "salaries")),
        lambda: list(world.coordinator.view().splits("hr", "salaries")),
        lambda: world.coordinator.view().lake_location(world.tables[2].table_id),
    ]
    with acting_as(ANA):
        assert [read() for read in reads] == [{"orders", "open_days"}, [], [], None]


def test_tierers_count_tables_so_they_are_for_those_who_operate_the_service(world: World) -> None:
    table = default_registry().table("tierers")
    with acting_as(OTTO):
        assert len(list(table.read(world.coordinator.view(), ScanRequest()))) == 1  # type: ignore[arg-type]
    with acting_as(ANA), pytest.raises(AccessDenied, match="ana lacks OPERATE on the service"):
        table.read(world.coordinator.view(), ScanRequest())


def test_next_action_names_the_grant_to_ask_for(world: World) -> None:
    pause(world.coordinator, world.tables[0].path, "otto")

    def action() -> str:
        view = world.coordinator.view()
        at = view.status_columns().column("table_name").to_pylist().index("orders")
        return str(view.status_columns().column("next_action")[at].as_py())

    assert action() == "CALL fluss.sys.resume_tiering('sales.orders')"
    with acting_as(OTTO):
        assert action() == "CALL fluss.sys.resume_tiering('sales.orders')"
    with acting_as(ANA):
        grant = action().rpartition(": ")[2]
        assert action().startswith("-- ask for OPERATE on sales.orders")
    assert grant == (
        'permit (principal == User::"ana", action in [Action::"DESCRIBE", Action::"OPERATE"], resource == Table::"sales.orders");'
    )
