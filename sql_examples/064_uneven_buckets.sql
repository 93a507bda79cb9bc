-- Title: Uneven buckets
-- Answers: which buckets wait longest, over all tables?

SELECT table_name, partition_name, bucket_id, lag_records > 0 AS waits
FROM fluss.sys.tiering_buckets
WHERE lag_records > 0
ORDER BY oldest_pending_time, table_name, bucket_id;

-- Expected:
-- | table_name | partition_name | bucket_id | waits |
-- | --- | --- | --- | --- |
-- | weather | NULL | 0 | true |
