-- Title: Tables that need a person
-- Answers: which tables failed in a way that no retry helps, as the alert LakewardTablesNeedSomebody counts them, and what helps?

SELECT database_name, table_name, error_class, error_hint
FROM fluss.sys.lake_tiering_status
WHERE error_retryable = false
ORDER BY database_name, table_name;

-- Expected:
-- | database_name | table_name | error_class | error_hint |
-- | --- | --- | --- | --- |
-- | demo | weather | * | * |
