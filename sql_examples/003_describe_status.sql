-- Title: Columns of a system table
-- Answers: which columns does a system table have, and what do they mean?

DESCRIBE fluss.sys.lake_tiering_status;

-- Expected:
-- | col_name | data_type | comment |
-- | --- | --- | --- |
-- | database_name | string | Database of the table. |
-- | table_name | string | Name of the table. |
-- | status | string | State of its tiering: Scheduled, Pending, Tiering or Failed. A table that waits for its next due time is Scheduled, also after a commit. |
-- | ... |
