-- Title: Records that were put aside
-- Answers: which records did rounds put aside because the lake cannot hold them, and why?

SELECT table_name, partition_name, bucket_id, offset, status, column_name, reason, record
FROM fluss.sys.dead_letters
ORDER BY table_name, bucket_id, offset;

-- Expected:
-- | table_name | partition_name | bucket_id | offset | status | column_name | reason | record |
-- | --- | --- | --- | --- | --- | --- | --- | --- |
