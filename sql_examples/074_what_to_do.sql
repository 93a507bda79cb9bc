-- Title: What to do
-- Answers: which statement helps a table that does not go on by itself? NULL where a person has to choose: then the hint says what each choice leaves out.

SELECT table_name, status, error_class, next_action, error_hint
FROM fluss.sys.lake_tiering_status
WHERE status = 'Failed' AND NOT error_retryable OR paused
ORDER BY database_name, table_name;

-- Expected:
-- | table_name | status | error_class | next_action | error_hint |
-- | --- | --- | --- | --- | --- |
-- | weather | Failed | SchemaDrift | * | * |
