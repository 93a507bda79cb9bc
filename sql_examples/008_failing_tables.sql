-- Title: Tables whose tiering fails
-- Answers: which tables fail, why, and what can be done about it?
--   The latest round failed, or a bucket stopped at a record that the lake cannot hold. A table that is not retryable waits until a person
--   repairs the cause. The hint says how.

SELECT table_name, error_class, error_phase, error_retryable, last_error, error_hint
FROM fluss.sys.lake_tiering_status
WHERE last_error IS NOT NULL
ORDER BY last_error_time DESC;

-- Expected:
-- | table_name | error_class | error_phase | error_retryable | last_error | error_hint |
-- | --- | --- | --- | --- | --- | --- |
-- | weather | SchemaDrift | PLAN | false | * | * |
