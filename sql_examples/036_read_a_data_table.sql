-- Title: Rows of a lake copy, with the places of their records
-- Answers: which rows are in the lake copy of this table, and at which offsets of its log were they?
--   The columns of the source come with SELECT *; those that begin with two underscores only by name, and only in the layout system-columns.

SELECT id, text, __bucket, __offset
FROM fluss.demo.`flights$lake`
WHERE id < 2
ORDER BY id;

-- Expected:
-- | id | text | __bucket | __offset |
-- | --- | --- | --- | --- |
-- | 0 | row 0 | * | 0 |
-- | 1 | row 1 | * | 1 |
