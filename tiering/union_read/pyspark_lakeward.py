"""The module by which Spark finds the data source `lakeward`. The build installs it as the top-level module `pyspark_lakeward`.

Spark asks each module whose name begins with `pyspark_` for a class `DefaultSource`, once per session. Spark sees only files and folders
of `sys.path`, and an editable install needs a copy of the module there, too.
"""

from __future__ import annotations

try:
    from tiering.union_read.spark_source import LakewardSource as DefaultSource
except ImportError as error:
    from pyspark import __version__

    if not str(error.name).startswith("pyspark"):
        raise
    raise ImportError(
        f"the data source 'lakeward' needs PySpark 4.1 or newer, and this Python has PySpark {__version__}: pip install 'pyspark==4.1.*'"
    ) from error

__all__ = ["DefaultSource"]
