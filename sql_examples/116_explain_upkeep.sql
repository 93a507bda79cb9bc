-- Title: What upkeep would do now
-- Answers: what would the next upkeep of this table rewrite, why does it wait, and when was the last one? (The CALL changes nothing.)

CALL fluss.sys.explain_upkeep('demo.flights');

-- Expected:
-- | decision | partition_name | bucket_id | files | bytes | reason |
-- | --- | --- | --- | --- | --- | --- |
-- | * | NULL | NULL | NULL | NULL | * |
-- | ... |
