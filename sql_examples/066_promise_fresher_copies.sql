-- Title: Promise a fresher lake copy
-- Answers: how old may this table's lake copy be, and how do I promise one of at most a minute? (Without dry_run it does, at once.)

CALL fluss.sys.set_freshness('demo.flights', '1 min', dry_run => true);

-- Expected:
-- | table | previous_ms | freshness_ms | warning |
-- | --- | --- | --- | --- |
-- | demo.flights | * | 60000 | NULL |
