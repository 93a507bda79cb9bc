-- Title: Required arguments
-- Answers: which arguments does a procedure require?

SELECT procedure_name, p.name AS parameter, p.type AS type
FROM fluss.sys.procedures
LATERAL VIEW explode(parameters) exploded AS p
WHERE p.required AND procedure_name = 'tier_table';

-- Expected:
-- | procedure_name | parameter | type |
-- | --- | --- | --- |
-- | tier_table | table | STRING |
