-- Title: Tables that failed more than once
-- Answers: which tables have failed more than once, and when does the next attempt begin?
--   error_count counts for ever, consecutive_failures begins anew with each success.

SELECT database_name, table_name, error_count, consecutive_failures, next_retry_time
FROM fluss.sys.lake_tiering_status
WHERE consecutive_failures > 1
ORDER BY consecutive_failures DESC;

-- Expected:
-- | database_name | table_name | error_count | consecutive_failures | next_retry_time |
-- | --- | --- | --- | --- | --- |
