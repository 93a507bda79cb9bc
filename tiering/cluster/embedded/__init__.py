"""The embedded cluster: one folder of tables, for first steps, for tests and for fault injection (DESIGN 9).

kind            hosts it, connects to it over gRPC, opens it without a running process, and preloads its readers
storage         the owner of the folder: all operations of the cluster, in process
stored_cluster  the readable content of the folder, for its owner and for other processes (`ReadOnlyEmbeddedCluster`)
maintenance     periodic work: takes KV snapshots, cuts logs, ends leases
folder          the lock, and the clean-up at a start; stored_paths: the paths that the metadata may name
metadata/       the SQLite file: tables, partitions, options, leases, KV snapshots, the lake record
log/            appends, the choice of partition and bucket (placing, bucketing), segment files, the reader of log splits
kv/             primary-key tables: upserts and deletes, the KV state, writing and reading of KV snapshots, refused records
rpc/            the cluster over gRPC: service, client, messages
"""
