-- Title: A lake table keeps its format
-- Answers: what happens if I change the format of a table that has a lake copy?

CALL fluss.sys.set_table_option('demo.flights', 'table.datalake.format', 'paimon');

-- Expected error:
-- the lake format of demo.flights cannot become paimon
-- its lake table is iceberg already
