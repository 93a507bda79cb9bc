-- Title: What happened to a table
-- Answers: what did a table go through, and what were the last commits it was granted?

SELECT event_type, level, principal, message
FROM fluss.sys.tiering_events
WHERE database_name = 'demo' AND table_name = 'flights' AND event_type = 'COMMIT_GRANTED'
ORDER BY occurred_at DESC
LIMIT 1;

-- Expected:
-- | event_type | level | principal | message |
-- | --- | --- | --- | --- |
-- | COMMIT_GRANTED | INFO | NULL | the round may commit to the lake |
