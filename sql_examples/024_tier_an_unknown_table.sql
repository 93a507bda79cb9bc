-- Title: A table that is not there
-- Answers: what happens if I mistype a name?

CALL fluss.sys.tier_table('demo.fligths');

-- Expected error:
-- there is no table demo.fligths
