"""The interface between Lakeward and a streaming store, and the cluster kinds that implement it.

    base          the protocols that every kind implements: tierers read through `SplitSource`, the coordinator owns a `ClusterOwner`
    capabilities  protocols that only some kinds implement: skipped records, table options, KV snapshots on demand, and others
    writable      creating tables and writing rows, for ingest, the demo and tests
    registry      the protocol `ClusterKind`, and the list of kinds
    lease_rules   the limits on ids and durations of leases, the same for every kind
    embedded/     the cluster that is part of Lakeward
    fluss/        Apache Fluss

To add a kind, write a folder like `embedded/` with a `ClusterKind` in its `kind.py`. Add one line for it to `registry.BUILT_IN` and one to
`CLUSTERS` of tests/conformance/test_clusters.py. The kind must pass that test suite.
"""
