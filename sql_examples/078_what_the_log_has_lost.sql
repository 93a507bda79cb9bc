-- Title: What a reader of the log alone would miss
-- Answers: of which buckets did the log let go of records that the lake still has?

SELECT table_name, bucket_id, log_start_offset, lake_only_records
FROM fluss.sys.tiering_buckets
WHERE lake_only_records > 0
ORDER BY lake_only_records DESC, table_name, bucket_id;

-- Expected:
-- | table_name | bucket_id | log_start_offset | lake_only_records |
-- | --- | --- | --- | --- |
