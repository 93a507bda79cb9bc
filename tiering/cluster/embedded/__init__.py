"""The embedded cluster: one folder of tables, for the first five minutes, for tests and for fault injection (DESIGN 9).

kind            how it is hosted, reached over gRPC, read while nothing runs, and imported ahead of work
storage         the owner of the folder: everything the cluster offers, in process
table_changes   CREATE, ALTER and DROP; set_table_option
stored_cluster  what can be read of the folder, by its owner and beside it; read_only: the folder without its owner
maintenance     what happens by itself every few seconds: when a KV snapshot is taken, when a log is cut, when a lease ends
folder          the lock, and what a start sweeps; stored_paths: which paths the metadata may name
metadata/       the SQLite file: tables, partitions, options, leases, KV snapshots, the lake record
log/            appends, how rows choose partition and bucket (placing, bucketing), segment files, retention, the reader of log splits
kv/             primary-key tables: upserts and deletes, the KV state, how a KV snapshot is written and read, refused records
rpc/            the same over gRPC: service, client, messages, and the writer that cuts rows into messages
"""
