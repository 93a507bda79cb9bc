-- Title: Skip a record at which a bucket stands
-- Answers: how does a table go on whose lake, or whose rows, cannot take a record of its log? (Its error names bucket and offset.)

CALL fluss.sys.skip_record('demo.flights', 0, 3, reason => 'a map with a key twice');

-- Expected error:
-- bucket 0 of demo.flights stands at no record: there is nothing to skip
