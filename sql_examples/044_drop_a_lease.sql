-- Title: Drop a lease
-- Answers: is a drop of a lease that has ended an error?

CALL fluss.sys.drop_kv_snapshot_lease('my-lease');

-- Expected error:
-- there is no lease 'my-lease'
