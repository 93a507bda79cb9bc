-- Title: The slowest rounds
-- Answers: which rounds took longest, and in which phase?

SELECT table_name, tierer_id, duration_ms, records_written, plan_ms, lease_ms, read_ms, write_ms, commit_ms, ack_ms
FROM fluss.sys.tiering_rounds
WHERE state = 'SUCCEEDED'
ORDER BY duration_ms DESC
LIMIT 3;

-- Expected:
-- | table_name | tierer_id | duration_ms | records_written | plan_ms | lease_ms | read_ms | write_ms | commit_ms | ack_ms |
-- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
-- | flights | * | * | * | * | NULL | * | * | * | * |
-- | ... |
