"""The module by which Spark finds the data source `lakeward`. The build installs it as the top-level module `pyspark_lakeward`.

Spark asks each module whose name begins with `pyspark_` for a class `DefaultSource`, once per session. Spark sees only files and folders
of `sys.path`, and an editable install needs a copy of the module there, too.
"""

from __future__ import annotations

from tiering.union_read.spark_source import LakewardSource as DefaultSource

__all__ = ["DefaultSource"]
