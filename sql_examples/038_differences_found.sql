-- Title: Differences that validations found
-- Answers: did a validation fail, and where is the first difference?

SELECT validated_at, database_name, table_name, check, scope, expected, actual, details
FROM fluss.sys.validation_results
WHERE NOT ok
ORDER BY validated_at;

-- Expected:
-- | validated_at | database_name | table_name | check | scope | expected | actual | details |
-- | --- | --- | --- | --- | --- | --- | --- | --- |
