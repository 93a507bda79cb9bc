-- Title: The statement that ends each error
-- Answers: which errors are not over, since when, and which statement ends each of them?

SELECT table_name, phase, error_class, first_seen, next_action
FROM fluss.sys.tiering_errors
WHERE resolved_at IS NULL AND NOT retryable
ORDER BY table_name, first_seen;

-- Expected:
-- | table_name | phase | error_class | first_seen | next_action |
-- | --- | --- | --- | --- | --- |
-- | weather | PLAN | SchemaDrift | * | * |
