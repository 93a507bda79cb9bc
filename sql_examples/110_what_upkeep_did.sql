-- Title: The latest upkeep of lake tables
-- Answers: which upkeep ran last, why, how many files and bytes did it rewrite, and how did it end?

SELECT table_name, trigger, actions, reason, outcome, files_before, files_after, bytes_read, bytes_written, duration_ms, error_message
FROM fluss.sys.lake_upkeep
ORDER BY pending_time DESC, round_id
LIMIT 20;

-- Expected:
-- | table_name | trigger | actions | reason | outcome | files_before | files_after | bytes_read | bytes_written | duration_ms | error_message |
-- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
-- | ... |
