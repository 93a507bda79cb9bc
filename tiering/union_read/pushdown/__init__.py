"""What the conditions of a read leave out: partitions and buckets before the read (`pruning`), rows in its tasks (`row_filter`)."""
