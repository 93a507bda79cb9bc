-- Title: Buckets that cannot go on
-- Answers: which buckets stand at a record, at which offset and why, while others of their tables go on?

SELECT table_name, partition_name, bucket_id, stopped_at_offset, error_class, error_message, stopped_at_record
FROM fluss.sys.tiering_buckets
WHERE error_class IS NOT NULL
ORDER BY table_name, bucket_id;

-- Expected:
-- | table_name | partition_name | bucket_id | stopped_at_offset | error_class | error_message | stopped_at_record |
-- | --- | --- | --- | --- | --- | --- | --- |
