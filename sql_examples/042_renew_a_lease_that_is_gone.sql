-- Title: Renew a lease
-- Answers: what happens if my lease has ended before I renew it?

CALL fluss.sys.renew_kv_snapshot_lease('my-lease');

-- Expected error:
-- there is no lease 'my-lease'
