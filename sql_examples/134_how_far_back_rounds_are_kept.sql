-- Title: How far back the rounds of each table are kept
-- Answers: since when does history say whether a table kept its promise?

SELECT table_name, rounds_since
FROM fluss.sys.history_bounds
ORDER BY table_name;

-- Expected:
-- | table_name | rounds_since |
-- | --- | --- |
-- | flights | * |
-- | weather | * |
