-- Title: How much history is kept
-- Answers: how many rounds and events are kept for all tables and for one, and for how long?

SELECT name, default, description IS NOT NULL AS is_described
FROM fluss.sys.options
WHERE scope = 'coordinator' AND name LIKE 'keep_%'
ORDER BY name;

-- Expected:
-- | name | default | is_described |
-- | --- | --- | --- |
-- | keep_events | 500000 | true |
-- | keep_history_ms | 2592000000 | true |
-- | keep_operations_ms | 604800000 | true |
-- | keep_rounds | 200000 | true |
-- | keep_table_events | 25000 | true |
-- | keep_table_rounds | 5000 | true |
