-- Title: The tables of a database
-- Answers: which tables of the store are in this database?

SHOW TABLES IN fluss.demo;

-- Expected:
-- | namespace | tableName | isTemporary |
-- | --- | --- | --- |
-- | demo | flights | false |
-- | demo | planes | false |
-- | demo | weather | false |
