-- Title: A table whose lake is disabled
-- Answers: what happens if I tier a table that has no lake copy?

CALL fluss.sys.tier_table('demo.planes');

-- Expected error:
-- planes
