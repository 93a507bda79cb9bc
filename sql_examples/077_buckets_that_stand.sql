-- Title: Buckets that cannot continue
-- Answers: which buckets stopped, at which offset and why, while the other buckets of their tables continue?

SELECT table_name, partition_name, bucket_id, stopped_at_offset, error_class, error_message, stopped_at_record
FROM fluss.sys.tiering_buckets
WHERE error_class IS NOT NULL
ORDER BY table_name, bucket_id;

-- Expected:
-- | table_name | partition_name | bucket_id | stopped_at_offset | error_class | error_message | stopped_at_record |
-- | --- | --- | --- | --- | --- | --- | --- |
