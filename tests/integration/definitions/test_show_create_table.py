"""SHOW CREATE TABLE prints a statement that creates the same table."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from support.running.cluster_of_processes import Deployment
from tiering.cluster.embedded.rpc.client import RemoteEmbeddedCluster
from tiering.model.sql_types import literal
from tiering.model.tables import TableInfo, TablePath

KEY_TYPES = ("INT", "BIGINT", "STRING", "DATE", "DECIMAL(12, 2)", "TIMESTAMP", "BINARY", "SMALLINT")
PARTITION_TYPES = ("STRING", "DATE", "INT", "TINYINT")
SCALARS = (*KEY_TYPES, "BOOLEAN", "TINYINT", "FLOAT", "DOUBLE", "DECIMAL(38, 0)", "TIMESTAMP_NTZ")
NAMES = ("id", "order", "select", "a-b", "_x", "Kind", "from", "day", "n1", "where")
TEXTS = ("All orders.", 'It\'s "quoted"', "back \\ slash", "50 % of '`x`'", "\U0001f600 and é")
OPTIONS = {
    "table.datalake.enabled": ("true", "false"),
    "table.datalake.freshness": ("30 s", "PT1H"),
    "table.datalake.format": ("iceberg", "paimon"),
    "table.datalake.layout": ("clean", "system-columns"),
    "table.log.ttl": ("7 d",),
    "iceberg.write.target-file-size-bytes": ("1000000",),
}


SHOWN = [
    "CREATE TABLE fluss.shop.shown (",
    "  id INT NOT NULL,",
    "  name STRING)",
    "USING lakeward",
    "TBLPROPERTIES (",
    "  'bucket.key' = 'id',",
    "  'bucket.num' = '1',",
    "  'primary.key' = 'id',",
    "  'table.datalake.layout' = 'clean',",
    "  'team' = '***')",
]
"""The whole statement for a table with an option whose value may be a secret."""


def comment_of(rng: random.Random) -> str:
    return f" COMMENT {literal(rng.choice(TEXTS))}" if rng.random() < 0.3 else ""


def type_of(rng: random.Random, depth: int = 0) -> str:
    kind = rng.choice(("scalar",) * 4 + ("array", "map", "struct")) if depth < 3 else "scalar"
    if kind == "array":
        return f"ARRAY<{type_of(rng, depth + 1)}>"
    if kind == "map":
        return f"MAP<{rng.choice(KEY_TYPES)}, {type_of(rng, depth + 1)}>"
    if kind == "struct":
        names = rng.sample(NAMES, rng.randint(1, 3))
        return f"STRUCT<{', '.join(f'`{name}`: {type_of(rng, depth + 1)}{comment_of(rng)}' for name in names)}>"
    return rng.choice(SCALARS)


def statement_of(rng: random.Random, name: str) -> str:
    """A CREATE TABLE of a random table."""
    names = rng.sample(NAMES, rng.randint(2, 8))
    keys, partitions = names[: rng.randint(0, 2)], []
    if len(names) > 4 and rng.random() < 0.5:
        partitions = names[-rng.randint(1, 2) :]
    columns = [(column, f"{rng.choice(KEY_TYPES) if column in keys else type_of(rng)}") for column in names if column not in partitions]
    columns += [(column, rng.choice(PARTITION_TYPES)) for column in partitions]
    texts = [f"`{column}` {kind}{rng.choice(('', ' NOT NULL'))}{comment_of(rng)}" for column, kind in columns]
    properties = {option: rng.choice(values) for option, values in OPTIONS.items() if rng.random() < 0.4}
    if keys and rng.random() < 0.7:
        properties["primary.key"] = ", ".join([*keys, *partitions])
    elif keys:
        properties["bucket.key"] = keys[0]
    if rng.random() < 0.6:
        properties["bucket.num"] = str(rng.randint(1, 9))
    clauses = [f"PARTITIONED BY ({', '.join(f'`{column}`' for column in partitions)})"] if partitions else []
    clauses += [f"COMMENT {literal(rng.choice(TEXTS))}"] if rng.random() < 0.5 else []
    clauses += (
        [f"TBLPROPERTIES ({', '.join(f'{literal(key)} = {literal(value)}' for key, value in properties.items())})"] if properties else []
    )
    return f"CREATE TABLE {name} ({', '.join(texts)}) {' '.join(clauses)}"


def definition(service: Deployment, name: str) -> TableInfo:
    """The table without its id, times and name."""
    with RemoteEmbeddedCluster(service.uri) as cluster:
        info = cluster.table(TablePath("shop", name))
    return replace(info, table_id=0, path=TablePath("shop", "t"), created_at=info.created_at.max, lake_enabled_at=None)


def shown(spark: SparkSession, name: str) -> str:
    [[statement]] = spark.sql(f"SHOW CREATE TABLE {name}").collect()
    return str(statement)


@pytest.mark.parametrize("seed", range(40))
def test_the_statement_creates_the_same_table(seed: int, spark: SparkSession, service: Deployment) -> None:
    first, second = f"fluss.shop.first{seed}", f"fluss.shop.second{seed}"
    created = statement_of(random.Random(seed), first)
    spark.sql(created)
    printed = shown(spark, first)
    assert printed.startswith(f"CREATE TABLE {first} (")
    spark.sql(printed.replace(first, second, 1))

    expected, repeated = definition(service, f"first{seed}"), definition(service, f"second{seed}")
    assert repeated == expected, created
    assert repeated.schema.equals(expected.schema, check_metadata=True)
    assert shown(spark, second).replace(second, first, 1) == printed


def test_it_has_no_values_of_the_moment(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE fluss.shop.shown (id INT NOT NULL, name STRING) TBLPROPERTIES ('primary.key' = 'id', 'team' = 'a')")

    assert shown(spark, "fluss.shop.shown").splitlines() == SHOWN
    properties = dict(spark.sql("SHOW TBLPROPERTIES fluss.shop.shown").collect())
    assert {"table-id", "table-type", "lake.enabled"} <= properties.keys()
