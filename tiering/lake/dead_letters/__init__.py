"""Dead letters: records that the lake cannot hold, and that a round put aside instead of stopping before them (docs/dead-letters.md).

    letter   a dead letter, its values as JSON, and its form within a write result
    settled  the marker after a replay, or after a decision that records stay out
    table    the lake table `<table>__dead_letters`: its columns, the commit that appends to it, and its rows for readers

The option `table.datalake.on-bad-record` = `dead-letter` allows it. The task of a split puts the refused record aside and writes the other
rows (`round.tasks.split_work`). The round then makes two commits, in this order, both after its grant:

1. The rows of the dead letters, into the dead-letter table. This commit is idempotent per record, which is identified by table id,
   partition, bucket, offset and trace. The marker of the dead-letter table names the records that the table has, as its `skipped` records.
2. The rows of the source table, into its own lake table. The marker of this commit names the same records as `skipped`, and as
   `dead_letters`. From then on they count: all offsets below the tiered end are either rows or skipped, and the proofs, the validation,
   the reads and the repair of a lake table treat a dead letter as they treat a record of `CALL sys.skip_record`.

If the process dies between the two commits, the dead-letter table has rows that no marker of the source table names. They do not count. The
next round meets the same records again. If the lake still cannot hold them, it finds them in the dead-letter table and appends nothing; if
the lake can hold them by now, they become rows, and the unused dead letters stay without effect.

The coordinator learns the dead letters of a table only from the marker in the lake, at the ack (`decisions.lake_acks`). It replaces its
record of them by those of the marker, and no longer skips a former dead letter that the marker does not name.

A replay is one commit of the source's lake table under a fence and a compare-and-set, as any round: it adds the rows with their original
offsets, and its marker has the same ends but no longer names these offsets, neither in `skipped` nor in `dead_letters` (`settled`). The
proof of the bucket counts the added rows and no longer has these offsets in its empty ranges. If a later change of a key is in the log, a
replay does not add the row of the older change. `CALL sys.discard_dead_letters` leaves the offsets in `skipped`, and removes them from
`dead_letters`. Both leave the rows of the dead-letter table as they are: a dead letter waits while the marker names it.
"""
