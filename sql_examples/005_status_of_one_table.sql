-- Title: Status of one table
-- Answers: in which state is one table, and how many of its records are not in the lake yet?

SELECT status_source, table_type, lake_format, freshness_ms, lag_ms, pending_records
FROM fluss.sys.lake_tiering_status
WHERE database_name = 'demo' AND table_name = 'flights';

-- Expected:
-- | status_source | table_type | lake_format | freshness_ms | lag_ms | pending_records |
-- | --- | --- | --- | --- | --- | --- |
-- | coordinator | LOG | iceberg | 300000 | 0 | 0 |
