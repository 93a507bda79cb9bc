-- Title: An unknown table
-- Answers: what happens if I mistype a name?

CALL fluss.sys.tier_table('demo.fligths');

-- Expected error:
-- there is no table demo.fligths
