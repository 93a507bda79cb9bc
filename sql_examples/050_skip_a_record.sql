-- Title: Skip a record at which a bucket stands
-- Answers: how does a primary-key table go on whose rows cannot take a record of its log? (Its error names bucket and offset.)

CALL fluss.sys.skip_record('demo.flights', 0, 3, reason => 'a map with a key twice');

-- Expected error:
-- demo.flights is a log table
