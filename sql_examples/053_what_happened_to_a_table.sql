-- Title: What happened to a table
-- Answers: which events did a table have, and which commits were granted last?

SELECT event_type, level, principal, message
FROM fluss.sys.tiering_events
WHERE database_name = 'demo' AND table_name = 'flights' AND event_type = 'COMMIT_GRANTED'
ORDER BY occurred_at DESC
LIMIT 1;

-- Expected:
-- | event_type | level | principal | message |
-- | --- | --- | --- | --- |
-- | COMMIT_GRANTED | INFO | NULL | the round may commit to the lake |
