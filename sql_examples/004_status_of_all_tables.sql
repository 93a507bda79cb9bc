-- Title: Status of all lake tables
-- Answers: which tables are tiered, in which state are they, and when did rows last reach the lake?

SELECT database_name, table_name, status, last_tiered_time, last_error
FROM fluss.sys.lake_tiering_status
ORDER BY database_name, table_name;

-- Expected:
-- | database_name | table_name | status | last_tiered_time | last_error |
-- | --- | --- | --- | --- | --- |
-- | demo | flights | * | * | NULL |
-- | demo | weather | Failed | * | * |
