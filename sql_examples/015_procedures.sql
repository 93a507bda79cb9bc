-- Title: What can be called
-- Answers: which procedures are there, what do they do, and which privilege do they need?

SELECT procedure_name, privilege, description
FROM fluss.sys.procedures
WHERE procedure_name IN ('help', 'tier_table')
ORDER BY procedure_name;

-- Expected:
-- | procedure_name | privilege | description |
-- | --- | --- | --- |
-- | help | NONE | Explains the procedures and their parameters. |
-- | tier_table | TIER on the table | Tiers a table now and waits until the lake has caught up. |
