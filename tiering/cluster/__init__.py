"""Where data comes from: the interface to a streaming store, and the kinds of store behind it.

    base          what tierers (`SplitSource`) and the coordinator (`ClusterOwner`) need of any cluster
    capabilities  what only some clusters can do: skip records, set table options, take KV snapshots when asked
    writable      making tables and writing to them, for ingest, the demo and tests
    kinds         what a kind of cluster is; registry: which kinds there are, a line each
    lease_rules   what a lease may be called and how long it may last, in every cluster
    embedded/     the cluster that Lakeward brings along

To add a kind, write a folder like `embedded/` with a `ClusterKind` in its `kind.py`, give it a line in `registry.BUILT_IN` and one in
`CLUSTERS` of tests/conformance/test_clusters.py, and pass that suite.
"""
