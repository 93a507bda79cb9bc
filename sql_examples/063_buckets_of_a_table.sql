-- Title: Buckets of a table
-- Answers: up to which offset does the lake have each bucket, and how many records wait in it?

SELECT bucket_id, log_end_offset = lake_offset AS in_lake, lag_records, lag_ms, is_backlog
FROM fluss.sys.tiering_buckets
WHERE database_name = 'demo' AND table_name = 'flights'
ORDER BY bucket_id;

-- Expected:
-- | bucket_id | in_lake | lag_records | lag_ms | is_backlog |
-- | --- | --- | --- | --- | --- |
-- | 0 | true | 0 | 0 | false |
-- | 1 | true | 0 | 0 | false |
-- | 2 | true | 0 | 0 | false |
-- | 3 | true | 0 | 0 | false |
