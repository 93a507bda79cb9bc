-- Title: When a table was in backlog
-- Answers: when did rounds of a table change between throughput and freshness, and why?

SELECT event_type, message
FROM fluss.sys.tiering_events
WHERE database_name = 'demo' AND table_name = 'flights' AND event_type IN ('BACKLOG_BEGIN', 'MODE_BACKLOG', 'MODE_LIVE')
ORDER BY event_id;

-- Expected:
-- | event_type | message |
-- | --- | --- |
-- | BACKLOG_BEGIN | * |
-- | MODE_BACKLOG | rounds are for throughput now: the table is new here |
-- | MODE_LIVE | rounds are for freshness now: the lake has the backlog of all buckets |
