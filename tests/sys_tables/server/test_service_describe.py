from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from support.services.sys_catalog import error_of, pb, registry_with, serving
from support.worlds.memory_coordinator import FLIGHT_COLUMNS, NOON, MemoryCoordinator, table_info, table_status
from sys_tables.declare.system_table import system_table
from sys_tables.registry import Registry
from tiering.access.requirements import EVERY_CALLER
from tiering.errors import ClusterUnavailable, InvalidArgument, InvalidName, UnknownDatabase, UnknownTable
from tiering.model.declare import column, comment_of
from tiering.model.tables import SnapshotRetention, TableType

Run = Callable[[Any], None]

_SHAPES: list[dict[str, Any]] = [
    {},
    {"lake_enabled": False, "properties": {"comment": "Not tiered.", "secret": "x"}},
    {"table_type": TableType.PRIMARY_KEY, "primary_key": ("id",), "bucket_keys": ("id",)},
]


@dataclass(frozen=True)
class ColourRow:
    colour: str = column("Its name.")


@system_table("colours", ColourRow, requires=EVERY_CALLER, comment="Colours.")
def colours(view: Any, scan: Any) -> list[ColourRow]:
    return [ColourRow("red"), ColourRow("blue")]


def read_schema(data: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(data))


async def names(client: Any, namespace: str, page_size: int = 0, page_token: str = "") -> tuple[list[str], str]:
    page = await client.stub.ListTables(pb.ListTablesRequest(namespace=namespace, page_size=page_size, page_token=page_token))
    return list(page.table_names), page.next_page_token


async def describe(client: Any, namespace: str, name: str) -> pb.DescribeTableResponse:
    return await client.stub.DescribeTable(pb.DescribeTableRequest(namespace=namespace, name=name))


def test_everything_is_described_with_comments(run: Run) -> None:
    async def scenario() -> None:
        async with serving(MemoryCoordinator([table_info("sales.orders"), table_info("hr.staff")], empty_databases=["void"])) as client:
            description = await client.stub.Describe(pb.DescribeRequest())
        assert list(description.namespaces) == ["hr", "sales", "void", "sys"]
        status = next(table for table in description.system_tables if table.name == "lake_tiering_status")
        schema = read_schema(status.schema)
        assert schema.names[:7] == [
            "database_name",
            "table_name",
            "status",
            "tiering_epoch",
            "last_tiered_time",
            "last_error",
            "last_error_time",
        ]
        assert all(comment_of(field) for field in schema)
        tier = next(procedure for procedure in description.procedures if procedure.name == "tier_table")
        assert [p.name for p in tier.parameters] == ["table", "wait", "timeout_ms", "dry_run", "idempotency_key"]
        assert [p.HasField("default_value") for p in tier.parameters] == [False, True, True, True, True]
        assert read_schema(tier.output_schema).names[:3] == ["table", "round_id", "state"]

    run(scenario())


def test_the_token_changes_with_what_is_described_and_only_then(run: Run) -> None:
    async def scenario() -> None:
        handle = MemoryCoordinator([table_info("sales.orders")])
        async with serving(handle) as client:
            first = await client.token()
            assert await client.token() == first
            handle.empty_databases = ["void"]
            assert await client.token() != first
        async with serving(handle, registry_with(tables=[colours])) as client:
            assert await client.token() != first

    run(scenario())


def test_system_tables_stay_readable_while_the_cluster_is_away(run: Run) -> None:
    async def scenario() -> None:
        handle = MemoryCoordinator([table_info("d.a")], [table_status("d.a", status="Failed")])
        async with serving(handle) as client:
            before = await client.stub.Describe(pb.DescribeRequest())
            handle.cluster_answers = False
            assert await client.stub.Describe(pb.DescribeRequest()) == before
            assert (await client.read("lake_tiering_status", "status", token=before.token)).to_pylist() == [{"status": "Failed"}]
            assert isinstance(await error_of(names(client, "d")), ClusterUnavailable)

    run(scenario())


def test_a_table_of_ones_own_is_described_and_read(run: Run) -> None:
    async def scenario() -> None:
        async with serving(MemoryCoordinator(), Registry([colours])) as client:
            assert await names(client, "SYS") == (["colours"], "")
            assert (await client.read("Colours")).to_pylist() == [{"colour": "red"}, {"colour": "blue"}]
            assert (await describe(client, "sys", "COLOURS")).comment == "Colours."

    run(scenario())


def test_pages_hold_every_table_once_also_while_tables_come_and_go(run: Run) -> None:
    async def scenario() -> None:
        handle = MemoryCoordinator([table_info(f"many.t{n:04}") for n in range(5_000)])
        async with serving(handle) as client:
            page, token = await names(client, "many", page_size=10_000)
            assert len(page) == 1_000, "no page is longer than the limit"
            handle.infos = [table_info("many.a_new_one"), *list(handle.infos)[1:]]
            listed = list(page)
            while token:
                page, token = await names(client, "many", page_size=999, page_token=token)
                listed += page
            assert listed == [f"t{n:04}" for n in range(5_000)]
            assert await names(client, "many", page_size=5_001) == (["a_new_one", *listed[1:1_000]], (await names(client, "many"))[1])

    run(scenario())


def test_a_page_that_ends_with_the_last_table_is_the_last(run: Run) -> None:
    async def scenario() -> None:
        async with serving(MemoryCoordinator([table_info("d.a"), table_info("d.b")], empty_databases=["void"])) as client:
            assert await names(client, "d", page_size=2) == (["a", "b"], "")
            assert await names(client, "void") == ([], "")

    run(scenario())


def test_bad_pages_are_refused(run: Run) -> None:
    async def scenario() -> None:
        async with serving(MemoryCoordinator([table_info("d.a"), table_info("d.b"), table_info("e.a")])) as client:
            _, token = await names(client, "d", page_size=1)
            assert isinstance(await error_of(names(client, "e", page_token=token)), InvalidArgument)
            assert isinstance(await error_of(names(client, "d", page_token="!")), InvalidArgument)
            assert isinstance(await error_of(names(client, "d", page_size=-1)), InvalidArgument)
            unknown = await error_of(names(client, "f"))
            assert isinstance(unknown, UnknownDatabase)
            assert unknown.hint == "The databases are: d, e, sys."

    run(scenario())


def test_a_data_table_has_the_users_columns_and_no_secrets(run: Run) -> None:
    async def scenario() -> None:
        table = table_info(
            "sales.Orders",
            table_type=TableType.PRIMARY_KEY,
            primary_key=("flight", "carrier"),
            bucket_keys=("flight",),
            properties={"comment": "All orders.", "s3.secret-key": "hunter2", "signing": "hunter2", "table.datalake.enabled": "true"},
        )
        async with serving(MemoryCoordinator([table])) as client:
            answer = await describe(client, "SALES", "orders")
        assert (answer.name, answer.comment) == ("Orders", "All orders.")
        assert read_schema(answer.schema) == FLIGHT_COLUMNS
        assert answer.properties["s3.secret-key"] == answer.properties["signing"] == "***"
        assert answer.properties["table.datalake.enabled"] == "true"
        assert answer.properties["primary.key"] == "flight,carrier"
        assert answer.properties["bucket.num"] == "4"
        assert (list(answer.primary_key), list(answer.partition_keys)) == (["flight", "carrier"], [])
        assert "partition.keys" not in answer.properties

    run(scenario())


def test_every_option_that_a_table_may_have_is_shown(run: Run) -> None:
    options = {
        "comment": f"Of {'x' * 20}.",
        "iceberg.comment": "Of the lake.",
        "iceberg.gc.enabled": "true",
        "iceberg.write.metadata.metrics.column.password": "none",
        "table.log.ttl": "7 d",
    }
    secrets = {"table.datalake.iceberg.signing": "hunter2", "signing": "hunter2", "iceberg.s3.secret-access-key": "hunter2"}

    async def scenario() -> None:
        async with serving(MemoryCoordinator([table_info("d.t", properties=options | secrets)])) as client:
            answer = await describe(client, "d", "t")
        assert {name: answer.properties[name] for name in options} == options
        assert {answer.properties[name] for name in secrets} == {"***"}

    run(scenario())


def test_a_data_table_says_how_its_lake_copy_stands_and_where_it_is(run: Run) -> None:
    async def scenario() -> None:
        elsewhere = table_info("d.elsewhere", lake_format="lance")
        paimon = table_info("d.keyed", lake_format="paimon")
        retention = SnapshotRetention(7_200_000, 3)
        tiered_info = table_info("d.t", freshness_ms=30_000, snapshot_retention=retention)
        infos = [tiered_info, table_info("d.new"), table_info("d.off", lake_enabled=False), elsewhere, paimon]
        status = table_status("d.t", status="Tiered", lag_ms=0, last_tiered_time=NOON)
        async with serving(MemoryCoordinator(infos, [status, table_status("d.new")])) as client:
            tiered, new, off, foreign = [await describe(client, "d", name) for name in ("t", "new", "off", "elsewhere")]
            other = await describe(client, "d", "keyed")
        assert (list(tiered.lake_path), list(new.lake_path)) == (["d", "t"], ["d", "new"])
        assert {name: value for name, value in tiered.properties.items() if name.startswith("lake.")} == {
            "lake.enabled": "true",
            "lake.format": "iceberg",
            "lake.freshness-ms": "30000",
            "lake.status": "Tiered",
            "lake.lag-ms": "0",
            "lake.last-tiered-time": "2026-03-01T12:00:00+00:00",
        }
        assert "lake.lag-ms" not in new.properties, "unknown is absent"
        assert "was tiered at" in tiered.not_in_lake
        assert "CALL sys.tier_table('d.new')" in new.not_in_lake
        assert tiered.lake_history == (
            "Snapshots of d.t are kept for 2 h (its option table.datalake.snapshot.max-age), and the newest 3 always "
            "(table.datalake.snapshot.min-count)"
        )
        assert "its option table.datalake.auto-expire-snapshot is false" in new.lake_history
        assert off.lake_history == ""
        assert (list(off.lake_path), off.properties["lake.enabled"]) == ([], "false")
        assert "table.datalake.enabled=true" in off.not_in_lake
        assert (list(foreign.lake_path), foreign.properties["lake.format"]) == ([], "lance")
        assert "is of the format lance, which cannot be read here" in foreign.not_in_lake
        assert list(other.lake_path) == [], "a table of that name in Spark's Iceberg catalog is another one"
        assert "with the jar org.apache.paimon:paimon-spark-<version of Spark>_2.13 on its class path" in other.not_in_lake
        assert "The same statement runs with `lakeward sql --engine duckdb`" in other.not_in_lake

    run(scenario())


def test_an_exact_name_wins_and_an_ambiguous_one_is_said_to_be(run: Run) -> None:
    async def scenario() -> None:
        async with serving(MemoryCoordinator([table_info("d.Orders"), table_info("d.ORDERS"), table_info("d.lines")])) as client:
            assert (await describe(client, "d", "Orders")).name == "Orders"
            assert (await describe(client, "D", "LINES")).name == "lines"
            ambiguous = await error_of(describe(client, "d", "orders"))
        assert isinstance(ambiguous, InvalidArgument)
        assert ambiguous.message == "'orders' is ambiguous: it could be ORDERS or Orders"

    run(scenario())


def test_an_unknown_table_comes_with_near_names(run: Run) -> None:
    async def scenario() -> None:
        many = [table_info(f"many.t{n:04}") for n in range(50)]
        async with serving(MemoryCoordinator([table_info("d.orders"), *many, table_info("many.Customers")])) as client:
            few = await error_of(describe(client, "d", "order"))
            near = await error_of(describe(client, "many", "custommers"))
            far = await error_of(describe(client, "many", "zzz"))
        assert isinstance(few, UnknownTable)
        assert few.message == "there is no table d.order"
        assert few.hint == "The tables of d are: orders."
        assert near.hint == "Of 51 tables of many, the nearest names are: Customers."
        assert far.hint == "There are 51 tables of many, none with a name like that."

    run(scenario())


def test_names_outside_the_rule_are_refused_before_anything_is_asked(run: Run) -> None:
    async def scenario() -> None:
        async with serving(MemoryCoordinator([table_info("d.orders")])) as client:
            for namespace, name in [("d", "../x"), ("d", "'; DROP"), ("a b", "orders"), ("d", "x" * 201)]:
                assert isinstance(await error_of(describe(client, namespace, name)), InvalidName)

    run(scenario())


def test_a_listing_describes_its_tables_as_the_look_up_of_one_does(run: Run) -> None:
    tables = [table_info(f"d.t{number:02}", table_id=number, **_SHAPES[number % len(_SHAPES)]) for number in range(7)]

    async def scenario() -> None:
        async with serving(MemoryCoordinator(tables, statuses=[table_status("d.t00", table_id=0)])) as client:
            for namespace in ("d", "sys"):
                listed = [table async for page in described_pages(client, namespace, page_size=3) for table in page.tables]
                plain, _ = await names(client, namespace)
                assert [table.name for table in listed] == plain
                assert listed == [await describe(client, namespace, name) for name in plain]

    run(scenario())


def test_a_page_of_descriptions_ends_long_before_grpc_refuses_it(run: Run) -> None:
    wide = pa.schema([pa.field(f"{'c' * 190}{number}", pa.string()) for number in range(1_000)])
    tables = [table_info(f"d.t{number:02}", table_id=number, schema=wide) for number in range(20)]

    async def scenario() -> None:
        async with serving(MemoryCoordinator(tables)) as client:
            pages = [page async for page in described_pages(client, "d")]
        assert len(pages) > 1
        assert max(page.ByteSize() for page in pages) < 2 << 20
        assert [name for page in pages for name in page.table_names] == [table.path.table_name for table in tables]
        assert all([table.name for table in page.tables] == list(page.table_names) for page in pages)

    run(scenario())


async def described_pages(client: Any, namespace: str, page_size: int = 0) -> AsyncIterator[pb.ListTablesResponse]:
    request = pb.ListTablesRequest(namespace=namespace, page_size=page_size, described=True)
    while True:
        page = await client.stub.ListTables(request)
        yield page
        if not page.next_page_token:
            return
        request.page_token = page.next_page_token
