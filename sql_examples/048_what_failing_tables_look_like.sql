-- Title: The shape of failing tables
-- Answers: how many buckets, which freshness and which columns do failing tables have, and can a retry help?

SELECT s.table_name, s.error_class, s.error_retryable, t.bucket_count, t.freshness_ms, t.schema
FROM fluss.sys.lake_tiering_status AS s
JOIN fluss.sys.tables AS t ON t.table_id = s.table_id
WHERE s.last_error IS NOT NULL
ORDER BY s.table_name;

-- Expected:
-- | table_name | error_class | error_retryable | bucket_count | freshness_ms | schema |
-- | --- | --- | --- | --- | --- | --- |
-- | weather | * | false | 1 | 1000 | id BIGINT, text STRING |
