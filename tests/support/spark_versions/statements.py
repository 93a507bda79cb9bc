"""The statements that every version of Spark executes, by topic, and in which of them a version differs from the locked one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

DATABASE = "{db}"
"""In a statement, the database of the version that executes it: the statements write, and versions share a service."""


@dataclass(frozen=True)
class Limit:
    """A known difference of some versions from the locked one."""

    text: str


NO_ICEBERG = Limit(
    "Iceberg publishes no runtime for this Spark. `fluss.db.t` is read by executors with Python."
    " ``fluss.db.`t$lake` `` and Iceberg's CALLs are errors."
)
NO_SHOW_PROCEDURES = Limit(
    "Spark 3.5 and 4.0 do not have SHOW PROCEDURES and DESCRIBE PROCEDURE. `SELECT * FROM fluss.sys.procedures` lists them."
)
NO_CONSTRAINTS = Limit("Spark 3.5 and 4.0 show no primary key in DESCRIBE EXTENDED. The table property `primary.key` names it.")
DETAILS = Limit("DESCRIBE EXTENDED of Spark 4.2 and newer has rows for catalog, namespace and table in place of the full name.")
COLLATIONS = Limit("SHOW CREATE TABLE of Spark 4.2 and newer writes `COLLATE UTF8_BINARY` after each STRING.")


@dataclass(frozen=True)
class Statement:
    """`limits`: by version with two numbers, how its answer differs. `unstable`: columns whose values differ between two calls."""

    topic: str
    sql: str
    limits: Mapping[str, Limit] = field(default_factory=dict)
    unstable: tuple[str, ...] = ()

    @property
    def fails(self) -> bool:
        """Whether the statement is an error in the locked version."""
        return self.sql in ERRORS


TIERED = ("round_id", "tiering_epoch", "lake_snapshot_id", "bytes", "lag_ms_before", "duration_ms")
"""Columns of tier_table that differ between two calls."""
DETAILS_BY_NAME = {"4.2": DETAILS, "4.3": DETAILS}
WITHOUT_ICEBERG = {"4.2": NO_ICEBERG, "4.3": NO_ICEBERG}
SYSTEM, LISTINGS, CALLS, DEFINITIONS, WRITES, READS = (
    "`sys`: columns, conditions, ORDER BY, LIMIT, aggregates, joins",
    "SHOW and DESCRIBE",
    "CALL: results, errors, one effect for a key",
    "CREATE, ALTER, DROP",
    "INSERT and DELETE",
    "reads of rows",
)


NO_WRITES = Limit(
    "Spark 3.5 cannot write rows: it has no Python data sources. So its `t` has no rows, `copy` does not exist, and a round finds nothing."
)
NO_LOG = Limit("Spark 3.5 cannot read rows of the log. ``fluss.db.`t$lake` `` has the rows of the lake.")
NO_SCRIPTS = Limit("Spark 3.5 has no SQL scripts. It executes each CALL as a statement of its own.")
NO_V2_LISTING = Limit("Spark 3.5 does not have SHOW COLUMNS and SHOW TABLE EXTENDED for catalogs of plugins. DESCRIBE shows the columns.")
OTHER_WORDS = Limit("Spark 3.5 words an error of its own differently. It is an error with the same meaning.")
SPARK_35: Mapping[str, Limit] = {
    "SELECT nope FROM fluss.sys.lake_tiering_status": OTHER_WORDS,
    "ALTER TABLE fluss.{db}.t DROP COLUMN nope": OTHER_WORDS,
    "CALL fluss.sys.tier_table()": OTHER_WORDS,
    "CALL fluss.sys.help(DISTINCT tier_table)": OTHER_WORDS,
    "CALL fluss.sys.help(*)": OTHER_WORDS,
    "CALL fluss.sys.tier_table('demo.flights', nope => 1)": OTHER_WORDS,
    "CREATE TABLE fluss.{db}.copy AS SELECT id, text FROM VALUES (1L, 'a'), (2L, 'b') AS v(id, text)": NO_WRITES,
    "CREATE OR REPLACE TABLE fluss.{db}.copy (id BIGINT)": NO_WRITES,
    "INSERT INTO fluss.{db}.t VALUES (1, 'a', 3), (2, 'b', NULL), (3, 'c', 5)": NO_WRITES,
    "INSERT INTO fluss.{db}.t VALUES (2, 'changed', 4)": NO_WRITES,
    "DELETE FROM fluss.{db}.t WHERE id = 3": NO_WRITES,
    "INSERT INTO fluss.{db}.p VALUES (1, 'a'), (2, 'c')": NO_WRITES,
    "CALL fluss.sys.tier_table('{db}.t', idempotency_key => 'key of {db}')": NO_WRITES,
    "CALL fluss.sys.tier_table(table => '{db}.t', idempotency_key => 'key of {db}')": NO_WRITES,
    "SELECT state, records_written FROM fluss.sys.tiering_rounds WHERE idempotency_key = 'key of {db}'": NO_WRITES,
    "SHOW PARTITIONS fluss.{db}.p": NO_WRITES,
    "BEGIN CALL fluss.sys.pause_tiering('{db}.t'); CALL fluss.sys.resume_tiering('{db}.t');"
    " CALL fluss.sys.pause_tiering('{db}.t'); END": NO_SCRIPTS,
    "SELECT paused FROM fluss.sys.lake_tiering_status WHERE database_name = '{db}' AND table_name = 't'": NO_SCRIPTS,
    "CALL fluss.sys.resume_tiering(table => '{db}.t')": NO_SCRIPTS,
    "DESCRIBE EXTENDED fluss.{db}.t": NO_CONSTRAINTS,
    "SHOW COLUMNS IN fluss.{db}.t": NO_V2_LISTING,
    "SHOW TABLE EXTENDED IN fluss.{db} LIKE 'copy'": NO_V2_LISTING,
    "SHOW PROCEDURES IN fluss.sys": NO_SHOW_PROCEDURES,
    "DESCRIBE PROCEDURE fluss.sys.tier_table": NO_SHOW_PROCEDURES,
    "SELECT * FROM fluss.{db}.t ORDER BY id": NO_LOG,
    "SELECT day, count(*) FROM fluss.{db}.p GROUP BY day ORDER BY day": NO_LOG,
    "SELECT count(*), sum(id), min(text) FROM fluss.demo.flights": NO_LOG,
    "SELECT id, text FROM fluss.demo.flights WHERE id BETWEEN 98 AND 101 ORDER BY id": NO_LOG,
    "SELECT f.id, t.text FROM fluss.demo.flights f JOIN fluss.{db}.t t ON f.id = t.id ORDER BY f.id": NO_LOG,
    "SELECT _change_type, id FROM fluss.{db}.`t$changelog` ORDER BY id, _change_type": NO_LOG,
}
"""How the answers of Spark 3.5 differ, by statement."""


def _of(topic: str, *statements: str | Statement) -> list[Statement]:
    return [_with_spark_35(Statement(topic, statement) if isinstance(statement, str) else statement) for statement in statements]


def _with_spark_35(statement: Statement) -> Statement:
    limit = SPARK_35.get(statement.sql)
    return statement if limit is None else replace(statement, limits={"3.5": limit, **statement.limits})


STATEMENTS = (
    *_of(
        SYSTEM,
        "SELECT table_name, lake_records FROM fluss.sys.lake_tiering_status WHERE database_name = 'demo' ORDER BY table_name DESC",
        "SELECT procedure_name FROM fluss.sys.procedures ORDER BY procedure_name LIMIT 3",
        "SELECT procedure_name, description FROM fluss.sys.procedures ORDER BY length(description), procedure_name",
        "SELECT upper(table_name) AS t, lake_records + 1 FROM fluss.sys.lake_tiering_status WHERE table_name LIKE 'fl%' OR lag_ms IS NULL",
        "SELECT substr(procedure_name, 1, 3), count(*) FROM fluss.sys.procedures GROUP BY 1 HAVING count(*) > 1 ORDER BY 2 DESC, 1",
        "SELECT count(*), max(lake_records) FROM fluss.sys.lake_tiering_status WHERE database_name IN ('demo', 'none')",
        "SELECT s.table_name, r.state FROM fluss.sys.lake_tiering_status s JOIN fluss.sys.tiering_rounds r USING (table_name)"
        " WHERE s.database_name = 'demo' ORDER BY r.started_time",
        "SELECT nope FROM fluss.sys.lake_tiering_status",
        "SELECT * FROM fluss.sys.nope",
        "DELETE FROM fluss.sys.lake_tiering_status",
    ),
    *_of(
        DEFINITIONS,
        "CREATE DATABASE fluss.{db}",
        "CREATE SCHEMA fluss.{db}",
        "CREATE TABLE fluss.{db}.t (id BIGINT NOT NULL, text STRING) COMMENT 'a' TBLPROPERTIES ('primary.key' = 'id', 'bucket.num' = '2')",
        "CREATE TABLE fluss.{db}.t (id BIGINT)",
        "CREATE TABLE IF NOT EXISTS fluss.{db}.t (id BIGINT)",
        "CREATE TABLE fluss.{db}.p (id BIGINT, day STRING) PARTITIONED BY (day)",
        "CREATE TABLE fluss.{db}.days (id BIGINT) PARTITIONED BY (days(id))",
        "ALTER TABLE fluss.{db}.t ADD COLUMN more INT COMMENT 'more'",
        "ALTER TABLE fluss.{db}.t RENAME COLUMN more TO rest",
        "ALTER TABLE fluss.{db}.t ALTER COLUMN rest TYPE BIGINT",
        "ALTER TABLE fluss.{db}.t DROP COLUMN nope",
        "ALTER TABLE fluss.{db}.t SET TBLPROPERTIES ('table.datalake.enabled' = 'true', 'table.datalake.freshness' = '1 h')",
        "ALTER TABLE fluss.{db}.p ADD PARTITION (day = 'a') PARTITION (day = 'b')",
        "ALTER TABLE fluss.{db}.p DROP PARTITION (day = 'b')",
        "ALTER TABLE fluss.{db}.t RENAME TO fluss.{db}.u",
        "CREATE TABLE fluss.{db}.copy AS SELECT id, text FROM VALUES (1L, 'a'), (2L, 'b') AS v(id, text)",
        "CREATE OR REPLACE TABLE fluss.{db}.copy (id BIGINT)",
    ),
    *_of(
        WRITES,
        "INSERT INTO fluss.{db}.t VALUES (1, 'a', 3), (2, 'b', NULL), (3, 'c', 5)",
        "INSERT INTO fluss.{db}.t VALUES (2, 'changed', 4)",
        "DELETE FROM fluss.{db}.t WHERE id = 3",
        "INSERT INTO fluss.{db}.p VALUES (1, 'a'), (2, 'c')",
        "INSERT OVERWRITE fluss.{db}.p VALUES (1, 'a')",
        "UPDATE fluss.{db}.t SET text = 'x'",
    ),
    *_of(
        CALLS,
        Statement(CALLS, "CALL fluss.sys.tier_table('{db}.t', idempotency_key => 'key of {db}')", unstable=TIERED),
        Statement(CALLS, "CALL fluss.sys.tier_table(table => '{db}.t', idempotency_key => 'key of {db}')", unstable=TIERED),
        "SELECT state, records_written FROM fluss.sys.tiering_rounds WHERE idempotency_key = 'key of {db}'",
        Statement(CALLS, "CALL fluss.sys.tier_table('{db}.t', dry_run => true)", unstable=TIERED),
        "CALL fluss.sys.pause_tiering('{db}.t', 'a reason', TIMESTAMP '2100-01-01 00:00:00')",
        "CALL fluss.sys.resume_tiering('{db}.t')",
        "SET spark.sql.scripting.enabled = true",
        "SET spark.job.tags = SparkConnect_OperationTag_of_{db}",
        # Each CALL of a script has an effect of its own, also under one tag.
        "BEGIN CALL fluss.sys.pause_tiering('{db}.t'); CALL fluss.sys.resume_tiering('{db}.t');"
        " CALL fluss.sys.pause_tiering('{db}.t'); END",
        "SELECT paused FROM fluss.sys.lake_tiering_status WHERE database_name = '{db}' AND table_name = 't'",
        "RESET spark.job.tags",
        "CALL fluss.sys.resume_tiering(table => '{db}.t')",
        "CALL fluss.sys.set_table_option('{db}.t', 'table.datalake.freshness', '2 h')",
        "CALL fluss.sys.help('tier_table')",
        "-- CALL fluss.sys.nope()\n/* a; */ call /* b */ `fluss`.sys.`HELP`(procedure => concat('tier_', 'table')); -- the end",
        Statement(CALLS, "CALL fluss.sys.wait_for_tiering('demo.flights', offsets => map('0', 1))", unstable=("waited_ms",)),
        Statement(CALLS, "CALL lake.system.ancestors_of('demo.flights')", WITHOUT_ICEBERG, unstable=("snapshot_id", "timestamp")),
        "CALL fluss.sys.help(DISTINCT tier_table)",
        "CALL fluss.sys.help(*)",
        "USE fluss.sys",
        "CALL help('tier_table')",
        "CALL sys.Help('tier_table')",
        "USE spark_catalog.default",
        "CALL fluss.sys.tier_table('demo.nope')",
        "CALL fluss.sys.tier_table()",
        "CALL fluss.sys.tier_table('demo.flights', nope => 1)",
        "CALL fluss.sys.tier_table('demo.flights', timeout_ms => 'soon')",
        "CALL fluss.sys.nope()",
    ),
    *_of(
        LISTINGS,
        "SHOW CATALOGS LIKE 'fl*'",
        "SHOW NAMESPACES IN fluss LIKE 'demo'",
        "SHOW TABLES IN fluss.sys",
        "SHOW TABLES IN fluss.{db}",
        "SHOW TABLES IN fluss.nope",
        "SHOW COLUMNS IN fluss.{db}.t",
        "SHOW PARTITIONS fluss.{db}.p",
        Statement(LISTINGS, "SHOW CREATE TABLE fluss.{db}.t", {"4.2": COLLATIONS, "4.3": COLLATIONS}),
        Statement(LISTINGS, "SHOW TABLE EXTENDED IN fluss.{db} LIKE 'copy'", unstable=("information",)),
        Statement(LISTINGS, "SHOW PROCEDURES IN fluss.sys", {"4.0": NO_SHOW_PROCEDURES}),
        "SHOW FUNCTIONS IN fluss.sys LIKE 'date_trunc'",
        "SHOW USER FUNCTIONS IN fluss.{db}",
        "SHOW FUNCTIONS IN fluss.nope",
        "DESCRIBE fluss.{db}.t",
        Statement(LISTINGS, "DESCRIBE EXTENDED fluss.{db}.t", {"4.0": NO_CONSTRAINTS, **DETAILS_BY_NAME}, unstable=("data_type",)),
        Statement(LISTINGS, "DESCRIBE EXTENDED fluss.sys.lake_tiering_status", DETAILS_BY_NAME),
        "DESCRIBE NAMESPACE fluss.demo",
        Statement(LISTINGS, "DESCRIBE PROCEDURE fluss.sys.tier_table", {"4.0": NO_SHOW_PROCEDURES}),
    ),
    *_of(
        READS,
        "SELECT * FROM fluss.{db}.t ORDER BY id",
        "SELECT day, count(*) FROM fluss.{db}.p GROUP BY day ORDER BY day",
        "SELECT count(*), sum(id), min(text) FROM fluss.demo.flights",
        "SELECT id, text FROM fluss.demo.flights WHERE id BETWEEN 98 AND 101 ORDER BY id",
        "SELECT f.id, t.text FROM fluss.demo.flights f JOIN fluss.{db}.t t ON f.id = t.id ORDER BY f.id",
        "SELECT _change_type, id FROM fluss.{db}.`t$changelog` ORDER BY id, _change_type",
        Statement(READS, "SELECT count(*), max(id) FROM fluss.demo.`flights$lake`", WITHOUT_ICEBERG),
        Statement(READS, "SELECT id FROM fluss.demo.`flights$lake` WHERE id > 97 ORDER BY id", WITHOUT_ICEBERG),
    ),
    *_of(
        DEFINITIONS,
        "DROP TABLE fluss.{db}.copy PURGE",
        "DROP TABLE fluss.{db}.copy",
        "DROP DATABASE fluss.{db}",
        "DROP DATABASE fluss.{db} CASCADE",
    ),
)

ERRORS = frozenset(
    {
        "SELECT nope FROM fluss.sys.lake_tiering_status",
        "SELECT * FROM fluss.sys.nope",
        "DELETE FROM fluss.sys.lake_tiering_status",
        "CREATE SCHEMA fluss.{db}",
        "CREATE TABLE fluss.{db}.t (id BIGINT)",
        "CREATE TABLE fluss.{db}.days (id BIGINT) PARTITIONED BY (days(id))",
        "ALTER TABLE fluss.{db}.t DROP COLUMN nope",
        "ALTER TABLE fluss.{db}.t RENAME TO fluss.{db}.u",
        "CREATE OR REPLACE TABLE fluss.{db}.copy (id BIGINT)",
        "INSERT OVERWRITE fluss.{db}.p VALUES (1, 'a')",
        "UPDATE fluss.{db}.t SET text = 'x'",
        "CALL fluss.sys.tier_table('demo.nope')",
        "CALL fluss.sys.tier_table()",
        "CALL fluss.sys.tier_table('demo.flights', nope => 1)",
        "CALL fluss.sys.tier_table('demo.flights', timeout_ms => 'soon')",
        "CALL fluss.sys.nope()",
        "CALL fluss.sys.help(DISTINCT tier_table)",
        "CALL fluss.sys.help(*)",
        "SHOW TABLES IN fluss.nope",
        "SHOW FUNCTIONS IN fluss.nope",
        "DROP TABLE fluss.{db}.copy",
        "DROP DATABASE fluss.{db}",
    }
)
"""The statements that are errors in the locked version."""
