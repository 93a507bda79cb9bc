-- Title: The source tables
-- Answers: which tables are there, how are they bucketed, and which of them are tiered?

SELECT table_name, table_type, bucket_count, lake_enabled, lake_format, freshness_ms
FROM fluss.sys.tables
WHERE database_name = 'demo'
ORDER BY table_name;

-- Expected:
-- | table_name | table_type | bucket_count | lake_enabled | lake_format | freshness_ms |
-- | --- | --- | --- | --- | --- | --- |
-- | flights | LOG | 4 | true | iceberg | 300000 |
-- | planes | LOG | 1 | false | NULL | NULL |
-- | weather | LOG | 1 | true | iceberg | 1000 |
