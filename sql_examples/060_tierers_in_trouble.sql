-- Title: Tierers in trouble
-- Answers: which tierers were lost or replaced by another process with their id, when was their last heartbeat, and which tables did they run?

SELECT tierer_id, host, state, heartbeat_time, tables_running
FROM fluss.sys.tierers
WHERE state IN ('LOST', 'FENCED')
ORDER BY tierer_id;

-- Expected:
-- | tierer_id | host | state | heartbeat_time | tables_running |
-- | --- | --- | --- | --- | --- |
