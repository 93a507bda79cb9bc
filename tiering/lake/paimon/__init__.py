"""Paimon: `opening` finds it, `lake` is the driver side, `factory` travels to executors, `writing` writes there, `commit` publishes.

Catalog, schemas and manifests go through pypaimon (the extra `paimon`), on the driver alone; rows are written with PyArrow, and a
snapshot is published by one request of our own (`commit.publishing`).
"""
