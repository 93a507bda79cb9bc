-- Title: A wrong argument
-- Answers: what happens if an argument has an invalid value?

CALL fluss.sys.tier_table(table => 'demo.flights', timeout_ms => -1);

-- Expected error:
-- timeout_ms
