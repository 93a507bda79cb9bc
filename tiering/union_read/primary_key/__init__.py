"""Union reads of primary-key tables: the rows of the lake merged with the changes of the log."""
