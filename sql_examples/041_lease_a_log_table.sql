-- Title: Lease the KV snapshots of a table
-- Answers: can I keep the snapshots of any table alive? (Only a primary-key table has them.)

CALL fluss.sys.acquire_kv_snapshot_lease('my-lease', 'demo.flights', ttl_ms => 600000);

-- Expected error:
-- demo.flights is a log table: only primary-key tables have KV snapshots
