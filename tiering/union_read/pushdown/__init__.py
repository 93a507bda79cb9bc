"""Applies the conditions of a read: to partitions and buckets before the read (`pruning`), and to rows in its tasks (`row_filter`)."""
