-- Title: Errors of rounds
-- Answers: which errors ended the rounds of a table, one after the other?

SELECT table_name, state, tiering_epoch, error_class, attempt, mode
FROM fluss.sys.tiering_rounds
WHERE table_name = 'weather' AND state = 'FAILED'
ORDER BY pending_time
LIMIT 1;

-- Expected:
-- | table_name | state | tiering_epoch | error_class | attempt | mode |
-- | --- | --- | --- | --- | --- | --- |
-- | weather | FAILED | * | * | * | NULL |
