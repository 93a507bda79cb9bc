-- Title: What upkeep would do now
-- Answers: what does the next upkeep of this table rewrite, why does it wait, and when was the last one? (Nothing is changed by asking.)

CALL fluss.sys.explain_upkeep('demo.flights');

-- Expected:
-- | decision | partition_name | bucket_id | files | bytes | reason |
-- | --- | --- | --- | --- | --- | --- |
-- | * | NULL | NULL | NULL | NULL | * |
-- | ... |
