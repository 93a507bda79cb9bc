-- Title: Backlogs that ended
-- Answers: up to which offset was each bucket of a table read as a backlog, and when did the backlog end?

SELECT get_json_object(details, '$.bucket') AS bucket, get_json_object(details, '$.backlog_offset') AS backlog_offset, occurred_at
FROM fluss.sys.tiering_events
WHERE database_name = 'demo' AND table_name = 'flights' AND event_type = 'BACKLOG_FINISH'
ORDER BY bucket;

-- Expected:
-- | bucket | backlog_offset | occurred_at |
-- | --- | --- | --- |
-- | 0 | * | * |
-- | 1 | * | * |
-- | 2 | * | * |
-- | 3 | * | * |
