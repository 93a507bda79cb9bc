-- Title: Who changed what
-- Answers: what did users change in the last hour, and who did it?

SELECT occurred_at, principal, event_type, concat(database_name, '.', table_name) AS `table`, message
FROM fluss.sys.tiering_events
WHERE principal IS NOT NULL AND occurred_at > current_timestamp() - INTERVAL 1 HOUR
ORDER BY occurred_at DESC, event_id DESC;

-- Expected:
-- | occurred_at | principal | event_type | table | message |
-- | --- | --- | --- | --- | --- |
-- | ... |
