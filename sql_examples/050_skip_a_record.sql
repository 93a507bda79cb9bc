-- Title: Skip a record at which a bucket stopped
-- Answers: a bucket stopped at a record that the lake or the table cannot hold: how does it continue? (Its error names bucket and offset.)

CALL fluss.sys.skip_record('demo.flights', 0, 3, reason => 'a map with a key twice');

-- Expected error:
-- bucket 0 of demo.flights is not stopped at a record: there is nothing to skip
