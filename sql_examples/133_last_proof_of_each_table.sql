-- Title: The last proof of each table
-- Answers: when was each lake table last proved with a signed archive, and did a proof find a difference?

SELECT s.table_name, max(p.proved_at) AS last_proved, count(CASE WHEN p.verdict = 'differs' THEN 1 END) AS differing
FROM fluss.sys.lake_tiering_status AS s
LEFT JOIN fluss.sys.table_proofs AS p ON p.database_name = s.database_name AND p.table_name = s.table_name
GROUP BY s.table_name
ORDER BY s.table_name;

-- Expected:
-- | table_name | last_proved | differing |
-- | --- | --- | --- |
-- | flights | * | 0 |
-- | weather | NULL | 0 |
