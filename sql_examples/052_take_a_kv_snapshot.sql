-- Title: Take KV snapshots of a table now
-- Answers: can I have a KV snapshot of the present rows, without waiting for the interval? (Of a primary-key table.)

CALL fluss.sys.take_kv_snapshot('demo.flights');

-- Expected error:
-- demo.flights is a log table: only primary-key tables have KV snapshots
