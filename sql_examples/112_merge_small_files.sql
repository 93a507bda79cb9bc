-- Title: Merge small files now
-- Answers: how do I compact a lake table now, and what would that do?
--   `where => 'region = ''north'''` takes some partitions, `full => true` all files. Without `dry_run` the CALL waits until nothing is left.

CALL fluss.sys.rewrite_data_files('demo.flights', dry_run => true);

-- Expected:
-- | table | outcome | reason | round_id | rounds | rewritten_files_count | added_files_count | rewritten_bytes_count | written_bytes_count | dropped_buckets_count | bytes_left |
-- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
-- | demo.flights | PLANNED | NULL | NULL | 0 | * | 0 | * | 0 | 0 | * |
