-- Title: Take KV snapshots of a table now
-- Answers: how do I get a KV snapshot of the current rows of a primary-key table, without waiting for the interval?

CALL fluss.sys.take_kv_snapshot('demo.flights');

-- Expected error:
-- demo.flights is a log table: only primary-key tables have KV snapshots
