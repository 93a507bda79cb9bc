-- Title: The system tables
-- Answers: which system tables can be asked?

SHOW TABLES IN fluss.sys;

-- Expected:
-- | namespace | tableName | isTemporary |
-- | --- | --- | --- |
-- | sys | lake_tiering_status | false |
-- | ... |
