-- Title: A lake table keeps its format
-- Answers: why can a table not be tiered into another format than its copy has?

CALL fluss.sys.set_table_option('demo.flights', 'table.datalake.format', 'paimon');

-- Expected error:
-- the lake format of demo.flights cannot become paimon
-- its lake table is iceberg already
