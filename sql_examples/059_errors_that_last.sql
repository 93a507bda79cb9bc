-- Title: Errors that are not over
-- Answers: which errors are not over, since when, how often did each of them end a round, and what helps?

SELECT table_name, phase, error_class, count > 0 AS counted, retryable, first_seen <= last_seen AS seen, hint IS NOT NULL AS has_hint
FROM fluss.sys.tiering_errors
WHERE resolved_at IS NULL
ORDER BY table_name;

-- Expected:
-- | table_name | phase | error_class | counted | retryable | seen | has_hint |
-- | --- | --- | --- | --- | --- | --- | --- |
-- | weather | PLAN | * | true | false | true | true |
