-- Title: Tables whose tiering fails
-- Answers: which tables fail, why, and what can be done about it?
--   Its latest round failed, or left a bucket at a record that it cannot take. A table that is not retryable waits for somebody to mend
--   the cause; the hint says how.

SELECT table_name, error_class, error_phase, error_retryable, last_error, error_hint
FROM fluss.sys.lake_tiering_status
WHERE last_error IS NOT NULL
ORDER BY last_error_time DESC;

-- Expected:
-- | table_name | error_class | error_phase | error_retryable | last_error | error_hint |
-- | --- | --- | --- | --- | --- | --- |
-- | weather | SchemaDrift | PLAN | false | * | * |
