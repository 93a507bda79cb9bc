-- Title: Take a tierer out of service
-- Answers: how do I take the tables from a tierer that hangs? (Its id is in sys.tierers.)

CALL fluss.sys.fence_tierer('tierer-7', 'hangs in garbage collection');

-- Expected error:
-- there is no tierer 'tierer-7'
