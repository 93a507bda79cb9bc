"""The module by which Spark finds the data source `lakeward`. The build installs it as the top-level module `pyspark_lakeward`.

Spark asks each module whose name begins with `pyspark_` for a class `DefaultSource`, once per session. Spark sees only files and folders
of `sys.path`, so the build puts a copy there also in an editable install.
"""

from __future__ import annotations

from tiering.union_read.spark_source import LakewardSource as DefaultSource

__all__ = ["DefaultSource"]
