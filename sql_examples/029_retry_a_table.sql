-- Title: Try a failed table again
-- Answers: the cause is mended; does the table have to wait for its back-off?

CALL fluss.sys.retry_tiering('demo.flights');

-- Expected:
-- | table | status | next_retry_time |
-- | --- | --- | --- |
-- | demo.flights | * | NULL |
