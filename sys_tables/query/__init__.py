"""One read of a system table: conditions, order, aggregates, over rows by column."""
