-- Title: Set a shorter freshness
-- Answers: how old may the lake copy of this table be, and how do I set at most a minute? (Without dry_run the change counts at once.)

CALL fluss.sys.set_freshness('demo.flights', '1 min', dry_run => true);

-- Expected:
-- | table | previous_ms | freshness_ms | warning |
-- | --- | --- | --- | --- |
-- | demo.flights | * | 60000 | NULL |
