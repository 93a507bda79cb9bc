-- Title: Prove that the lake equals the log
-- Answers: is every row of this table in the lake, once, with the values it was written with?

CALL fluss.sys.validate_table('demo.flights', level => 'counts');

-- Expected:
-- | validated_at | database_name | table_name | lake_snapshot_id | level | check | scope | expected | actual | ok | details | duration_ms | engine |
-- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
-- | * | demo | flights | * | counts | base | table | NULL | NULL | true | NULL | * | duckdb |
-- | * | demo | flights | * | counts | files | table | * | * | true | NULL | * | duckdb |
-- | * | demo | flights | * | counts | rows | 0 | 250 | 250 | true | NULL | * | duckdb |
-- | * | demo | flights | * | counts | rows | 1 | 250 | 250 | true | NULL | * | duckdb |
-- | * | demo | flights | * | counts | rows | 2 | 250 | 250 | true | NULL | * | duckdb |
-- | * | demo | flights | * | counts | rows | 3 | 250 | 250 | true | NULL | * | duckdb |
