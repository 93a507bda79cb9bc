-- Title: What a round would do now
-- Answers: what would the next round of this table read, and why does none begin yet? (The CALL changes nothing.)
--   First the lines about the table as a whole, then a line a split, or a bucket without one.

CALL fluss.sys.explain_tiering('demo.flights');

-- Expected:
-- | split_type | partition_name | bucket_id | snapshot_id | starting_offset | stopping_offset | records | decision | reason |
-- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
-- | NULL | NULL | NULL | NULL | NULL | NULL | NULL | * | * |
-- | ... |
