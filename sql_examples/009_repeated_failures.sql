-- Title: Tables that fail again and again
-- Answers: which tables have failed more than once, and when are they tried again?
--   error_count counts for ever, consecutive_failures begins anew with each success.

SELECT database_name, table_name, error_count, consecutive_failures, next_retry_time
FROM fluss.sys.lake_tiering_status
WHERE consecutive_failures > 1
ORDER BY consecutive_failures DESC;

-- Expected:
-- | database_name | table_name | error_count | consecutive_failures | next_retry_time |
-- | --- | --- | --- | --- | --- |
