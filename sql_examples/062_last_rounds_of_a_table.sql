-- Title: The last rounds of a table
-- Answers: when was a table tiered, how long did it take, and what was written?

SELECT table_name, state, trigger, attempt, duration_ms >= 0 AS took_time, records_written, files_written > 0 AS wrote_files
FROM fluss.sys.tiering_rounds
WHERE table_name = 'flights' AND state = 'SUCCEEDED'
ORDER BY pending_time DESC
LIMIT 1;

-- Expected:
-- | table_name | state | trigger | attempt | took_time | records_written | wrote_files |
-- | --- | --- | --- | --- | --- | --- | --- |
-- | flights | SUCCEEDED | * | 1 | true | * | true |
