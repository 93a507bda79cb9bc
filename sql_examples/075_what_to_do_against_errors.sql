-- Title: What to do against errors that last
-- Answers: which errors last, since when, and which statement ends each of them?

SELECT table_name, phase, error_class, first_seen, next_action
FROM fluss.sys.tiering_errors
WHERE resolved_at IS NULL AND NOT retryable
ORDER BY table_name, first_seen;

-- Expected:
-- | table_name | phase | error_class | first_seen | next_action |
-- | --- | --- | --- | --- | --- |
-- | weather | PLAN | SchemaDrift | * | * |
