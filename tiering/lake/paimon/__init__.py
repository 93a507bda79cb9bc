"""The lake format Paimon. `opening` opens it, `lake` is the driver side, `factory` is sent to executors, `writing` writes files there,
`commit` publishes.

Catalog, schemas and manifests go through pypaimon (the extra `paimon`), on the driver only. Rows are written with PyArrow, and a snapshot
is published by one request of Lakeward's own (`commit.committer`).
"""
