-- Title: Retry a failed table
-- Answers: the cause is repaired: how does the table continue without waiting for its back-off?

CALL fluss.sys.retry_tiering('demo.flights');

-- Expected:
-- | table | status | next_retry_time |
-- | --- | --- | --- |
-- | demo.flights | * | NULL |
