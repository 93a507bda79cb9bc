-- Title: Lake tables that need a compaction
-- Answers: which lake tables are slowest to read, why, and how many bytes would a compaction rewrite?

SELECT table_name, score, reason, data_files, small_files, dead_row_share, metadata_bytes, rewrite_bytes
FROM fluss.sys.lake_table_health
ORDER BY table_name;

-- Expected:
-- | table_name | score | reason | data_files | small_files | dead_row_share | metadata_bytes | rewrite_bytes |
-- | --- | --- | --- | --- | --- | --- | --- | --- |
-- | flights | * | NULL | * | * | * | * | * |
-- | weather | NULL | Lakeward has not committed to the lake table yet | NULL | NULL | NULL | NULL | NULL |
