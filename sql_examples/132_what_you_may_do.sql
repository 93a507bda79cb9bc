-- Title: What you may do
-- Answers: which privileges do I have on which tables? With ADMIN the rows of other users are there, too.

SELECT table_name, privileges
FROM fluss.sys.effective_privileges
WHERE table_name IS NOT NULL
ORDER BY table_name;

-- Expected:
-- | table_name | privileges |
-- | --- | --- |
-- | flights | DESCRIBE, SELECT, WRITE, TIER, OPERATE |
-- | planes | DESCRIBE, SELECT, WRITE, TIER, OPERATE |
-- | weather | DESCRIBE, SELECT, WRITE, TIER, OPERATE |
