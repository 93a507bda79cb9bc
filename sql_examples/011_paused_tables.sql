-- Title: Paused tables
-- Answers: which tables are not tiered because somebody paused them, who, and until when?

SELECT database_name, table_name, paused_by, paused_reason, paused_until
FROM fluss.sys.lake_tiering_status
WHERE paused
ORDER BY database_name, table_name;

-- Expected:
-- | database_name | table_name | paused_by | paused_reason | paused_until |
-- | --- | --- | --- | --- | --- |
