-- Title: Tables that are not tiered
-- Answers: which tables have no lake copy because their lake is disabled?

SELECT t.database_name, t.table_name
FROM fluss.sys.tables AS t
LEFT ANTI JOIN fluss.sys.lake_tiering_status AS s
  ON s.database_name = t.database_name AND s.table_name = t.table_name
ORDER BY t.database_name, t.table_name;

-- Expected:
-- | database_name | table_name |
-- | --- | --- |
-- | demo | planes |
