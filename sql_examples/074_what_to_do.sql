-- Title: The statement that helps each table
-- Answers: which statement helps a table that does not continue by itself?
--   NULL if a person has to choose. The hint then says which records each choice leaves out.

SELECT table_name, status, error_class, next_action, error_hint
FROM fluss.sys.lake_tiering_status
WHERE status = 'Failed' AND NOT error_retryable OR paused
ORDER BY database_name, table_name;

-- Expected:
-- | table_name | status | error_class | next_action | error_hint |
-- | --- | --- | --- | --- | --- |
-- | weather | Failed | SchemaDrift | * | * |
