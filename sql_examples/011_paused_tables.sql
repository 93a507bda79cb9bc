-- Title: Paused tables
-- Answers: which tables are paused, by whom, and until when?

SELECT database_name, table_name, paused_by, paused_reason, paused_until
FROM fluss.sys.lake_tiering_status
WHERE paused
ORDER BY database_name, table_name;

-- Expected:
-- | database_name | table_name | paused_by | paused_reason | paused_until |
-- | --- | --- | --- | --- | --- |
