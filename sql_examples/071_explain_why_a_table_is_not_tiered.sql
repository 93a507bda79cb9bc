-- Title: Everything that prevents a round of a table
-- Answers: this table is late: what prevents a round, and would a round succeed?
--   All reasons at once: a pause, a back-off, tierers, whose turn it is, the lake, the log.

CALL fluss.sys.explain_tiering('demo.weather');

-- Expected:
-- | split_type | partition_name | bucket_id | snapshot_id | starting_offset | stopping_offset | records | decision | reason |
-- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
-- | NULL | NULL | NULL | NULL | NULL | NULL | NULL | * | * |
-- | ... |
