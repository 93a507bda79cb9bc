-- Title: Records that only the lake has
-- Answers: which buckets have records in the lake that were removed from the log?

SELECT table_name, bucket_id, log_start_offset, lake_only_records
FROM fluss.sys.tiering_buckets
WHERE lake_only_records > 0
ORDER BY lake_only_records DESC, table_name, bucket_id;

-- Expected:
-- | table_name | bucket_id | log_start_offset | lake_only_records |
-- | --- | --- | --- | --- |
