-- Title: Everything that keeps a table from being tiered
-- Answers: this table is late: what keeps a round from beginning, and would one go through?
--   All reasons at once: a pause, a back-off, tierers, whose turn it is, the lake, the log.

CALL fluss.sys.explain_tiering('demo.weather');

-- Expected:
-- | split_type | partition_name | bucket_id | snapshot_id | starting_offset | stopping_offset | records | decision | reason |
-- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
-- | NULL | NULL | NULL | NULL | NULL | NULL | NULL | * | * |
-- | ... |
