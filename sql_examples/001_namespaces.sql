-- Title: What is there
-- Answers: which databases are there?
--   `sys` is the virtual one, with the system tables.

SHOW NAMESPACES IN fluss;

-- Expected:
-- | namespace |
-- | --- |
-- | demo |
-- | sys |
