"""A read of a data table or a system table: its conditions, its moment, and what one scan of it reads."""
