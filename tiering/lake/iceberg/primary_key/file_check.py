"""Checks whether rounds can read the live files of a primary-key table. Other writers may use another format or partition spec.

The rows of a key are looked up in Parquet, and a position delete applies only to data files of its own partition spec (Iceberg spec,
"Position Delete Files"). One rewrite of the table gives all its files the form of Lakeward's.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestFile
from pyiceberg.table import Table

from tiering.errors import SchemaDrift
from tiering.lake.iceberg.errors import lake_errors
from tiering.lake.iceberg.schema.drift import drift
from tiering.lake.rules.hints import PARQUET_PROPERTIES, rewrite_call, tier_call
from tiering.model.tables import TablePath


def check_live_files(table: Table, path: TablePath) -> None:
    """Checks the files of the table's head. Raises SchemaDrift with a `mend` (`DriftCheck.check_fit`), LakeUnavailable."""
    with lake_errors(f"read the manifests of {path}", table_path=path):
        snapshot = table.current_snapshot()
        for manifest in () if snapshot is None else snapshot.manifests(table.io):
            if is_live(manifest):
                check_spec(table, path, manifest)
                for entry in manifest.fetch_manifest_entry(table.io):
                    check_format(table, path, entry.data_file)


def is_live(manifest: ManifestFile) -> bool:
    """Whether the manifest has entries of live files."""
    return manifest.has_added_files() or manifest.has_existing_files()


def check_spec(table: Table, path: TablePath, manifest: ManifestFile) -> None:
    """Raises SchemaDrift for a manifest with files of another partition spec than the table's present one."""
    if manifest.partition_spec_id != table.metadata.default_spec_id:
        raise _unusual(table, path, "holds files of a former partition spec, whose buckets are unknown")


def check_format(table: Table, path: TablePath, file: DataFile) -> None:
    """Raises SchemaDrift for a data file, or a file of position deletes, that is not Parquet."""
    if file.file_format is not FileFormat.PARQUET and file.content is not DataFileContent.EQUALITY_DELETES:
        raise _unusual(
            table,
            path,
            f"holds the {file.file_format.value} file {file.file_path}, but Lakeward looks up the rows of a key only in Parquet",
        )


def _unusual(table: Table, path: TablePath, difference: str) -> SchemaDrift:
    """Returns the error, which says how to rewrite the files. If a property of the table names their format, it must be changed first."""
    others = _other_formats(table.properties)
    first = f"First set {' and '.join(others)} of the lake table to parquet. " if others else ""
    hint = f"{first}Rewrite its files (in Spark: {rewrite_call(path)}), then {tier_call(path)}. The rows stay in the log until then."
    return drift(path, None, difference, hint, mend="write_parquet" if others else "rewrite_files")


def _other_formats(properties: Mapping[str, str]) -> list[str]:
    """Returns the properties that name another format than Parquet. The format of deletes is Parquet unless its property is set."""
    return [name for name in PARQUET_PROPERTIES if properties.get(name, "parquet").lower() != "parquet"]
