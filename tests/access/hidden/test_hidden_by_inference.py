"""A caller cannot infer a hidden table from taken names, lengths of queues, or gaps in numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.clusters.memory_cluster import log_table
from support.services.guarded_service import GuardedService, guarded_service
from support.worlds.coordinator_world import World
from sys_tables.declare.scan import ScanRequest
from sys_tables.query.reading import read_table
from sys_tables.registry import default_registry
from tiering.access.grants import Grants
from tiering.access.identity import Authentication, Identity, acting_as
from tiering.coordinator.memory.history import HistoryRange
from tiering.coordinator.reasons import TiererCapacity, why_not_now
from tiering.errors import AccessDenied, AlreadyExists, LakewardError
from tiering.model.reading.conditions import Filter, Operator
from tiering.model.states import TableState
from tiering.model.tables import TablePath
from tiering.rpc.v1.common_pb2 import PbTablePath

POLICIES = """
permit (principal in Group::"staff", action, resource is Table in Database::"hr");
permit (principal in Group::"staff", action, resource is Database) when { resource.database like "*" };
forbid (principal in Group::"staff", action, resource == Table::"hr.layoffs");
forbid (principal in Group::"staff", action, resource == Database::"plans");
permit (principal == User::"olga", action, resource);
"""
CREATE_TABLE, CREATE_DATABASE = "/tiering.rpc.v1.EmbeddedCluster/CreateTable", "/tiering.rpc.v1.EmbeddedCluster/CreateDatabase"
HIDDEN, UNKNOWN = TablePath("hr", "layoffs"), TablePath("hr", "nothing")
ANA = Identity("ana", Authentication.TOKEN, frozenset({"staff"}))
OLGA = Identity("olga", Authentication.TOKEN)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedService]:
    with guarded_service(tmp_path_factory.mktemp("service"), POLICIES, {"ana": ("staff",), "olga": ()}) as running:
        for path in (HIDDEN, TablePath("hr", "people"), TablePath("plans", "cuts")):
            running.ensure_table(path)
        yield running


def refusal(service: GuardedService, method: str, **fields: Any) -> LakewardError:
    with pytest.raises(LakewardError) as raised:
        service.call(method, "ana", **fields)
    return raised.value


def new_table(name: str) -> dict[str, Any]:
    schema = pa.schema([pa.field("id", pa.int64())]).serialize().to_pybytes()
    return {"table_path": PbTablePath(database_name="hr", table_name=name), "schema": schema, "bucket_count": 1}


def test_a_new_table_is_refused_beside_a_hidden_one_as_a_table_that_the_caller_may_not_write(service: GuardedService) -> None:
    forbidden, twin = (refusal(service, CREATE_TABLE, **new_table(name)) for name in ("layoffs", "LAYOFFS"))
    assert type(twin) is type(forbidden) is AccessDenied
    assert (twin.message, twin.hint) == (forbidden.message.replace("layoffs", "LAYOFFS"), forbidden.hint.replace("layoffs", "LAYOFFS"))
    refused = refusal(service, CREATE_TABLE, **new_table("PEOPLE"))
    assert (type(refused), refused.message) == (AlreadyExists, "the table hr.people exists already")


def test_a_new_database_is_refused_beside_a_hidden_one_as_a_database_that_the_caller_may_not_write(service: GuardedService) -> None:
    forbidden, twin = (refusal(service, CREATE_DATABASE, database_name=name) for name in ("plans", "Plans"))
    assert type(twin) is type(forbidden) is AccessDenied
    assert twin.message == forbidden.message.replace("plans", "Plans")
    assert type(refusal(service, CREATE_DATABASE, database_name="HR")) is AlreadyExists


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A hidden table with history, and a visible one."""
    tables = tuple(log_table(number, path) for number, path in enumerate((HIDDEN, TablePath("hr", "people")), 1))
    new_world = World(tables)
    (tmp_path / "policy.cedar").write_text(POLICIES)
    new_world.coordinator.grants = Grants(tmp_path / "policy.cedar")
    for table in tables:
        new_world.append(10, table=table)
    new_world.due()
    tierer = new_world.tierer()
    for _ in tables:
        tierer.fail(tierer.get())
    yield new_world
    new_world.coordinator.close()


def test_events_are_numbered_for_those_who_operate_the_service_alone(world: World) -> None:
    for identity, is_numbered in ((ANA, False), (OLGA, True)):
        with acting_as(identity):
            events = list(world.coordinator.view().history.read_events(HistoryRange()))
        assert events
        assert {event.event_id is not None for event in events} == {is_numbered}


@pytest.mark.parametrize("with_numbers", [True, False])
def test_the_length_of_the_queue_is_for_those_who_operate_the_service(world: World, with_numbers: bool) -> None:
    record = world.coordinator.table_records.get(2)
    assert record is not None
    pending = replace(record, state=TableState.PENDING, round=None)
    lines = why_not_now(
        pending,
        world.coordinator.table_records.now(),
        TiererCapacity(1, 4, 0, 4),
        world.coordinator.options,
        queued_before=3,
        with_numbers=with_numbers,
    )
    text = " ".join(line.reason for line in lines)
    assert ("queued behind 3 tables" in text, "4 rounds in 4 slots" in text) == (with_numbers, with_numbers)
    assert ("queued behind other tables" in text) is not with_numbers
    assert "no tierer has a free slot" in text


class CountingHistory:
    """The store's history, which counts the rows that are drawn from it."""

    def __init__(self, stored: Any) -> None:
        self._stored = stored
        self.rows = 0

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._stored, name)
        return self._counted(attribute) if name.startswith("read_") else attribute

    def _counted(self, read: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Iterator[Any]]:
        def counted(wanted: Any) -> Iterator[Any]:
            for row in read(wanted):
                self.rows += 1
                yield row

        return counted


NAMED = [table for table in default_registry().tables if {"database_name", "table_name"} <= set(table.schema.names)]


@pytest.mark.parametrize("table", NAMED, ids=lambda table: str(table.name))
def test_a_read_by_the_name_of_a_hidden_table_draws_what_a_read_by_an_unknown_name_draws(world: World, table: Any) -> None:
    """Work is counted: rows that the store is asked for, and rows of the answer."""
    answers = []
    for path in (HIDDEN, UNKNOWN):
        equals = {"database_name": path.database_name, "table_name": path.table_name}
        filters = tuple(Filter(name, Operator.EQUAL, (value,)) for name, value in equals.items())
        with acting_as(ANA):
            view = world.coordinator.view()
            counting = CountingHistory(view.history._stored)  # type: ignore[attr-defined]
            view.history._stored = counting  # type: ignore[attr-defined]
            pieces = read_table(table, view, ScanRequest(filters=filters, procedures=default_registry().procedures))
            rows = pa.ipc.open_stream(b"".join(pieces)).read_all().num_rows
        answers.append((rows, counting.rows))
    assert answers == [(0, 0), (0, 0)]
