-- Title: Why a table was late
-- Answers: by how much did the last round of a table miss its deadline, and where did the time go?

SELECT table_name, missed_by_ms, waited_for_slot_ms, backoff_ms, paused_ms, plan_ms, lease_ms, read_ms, write_ms, commit_ms, ack_ms
FROM fluss.sys.tiering_rounds
WHERE database_name = 'demo' AND table_name = 'flights' AND missed_by_ms IS NOT NULL AND records_written > 0
ORDER BY pending_time DESC
LIMIT 1;

-- Expected:
-- | table_name | missed_by_ms | waited_for_slot_ms | backoff_ms | paused_ms | plan_ms | lease_ms | read_ms | write_ms | commit_ms | ack_ms |
-- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
-- | flights | * | * | 0 | 0 | * | NULL | * | * | * | * |
