package io.lakeward.spark.catalog;

import static io.lakeward.spark.error.LakewardException.unchecked;

import io.lakeward.spark.define.Partitions;
import io.lakeward.spark.error.LakewardException;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.SupportsAtomicPartitionManagement;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;

/**
 * The methods of a table of the store with which Spark shows, adds and drops partitions.
 */
interface PartitionedTable extends SupportsAtomicPartitionManagement, VersionedTable {

  /** The partitions of the table, which has no partition columns if it is not partitioned. */
  default Partitions partitions() {
    return definition().partitions();
  }

  /** The partition columns of the store: each value of them is a partition. */
  @Override
  default Transform[] partitioning() {
    return definition().partitioning(schema());
  }

  @Override
  default StructType partitionSchema() {
    return partitions().schema();
  }

  @Override
  default void createPartitions(InternalRow[] idents, Map<String, String>[] properties) {
    unchecked(
        () -> {
          partitions().add(idents, properties);
          return null;
        });
  }

  @Override
  default boolean dropPartitions(InternalRow[] idents) {
    return unchecked(
        () -> {
          partitions().drop(idents);
          return true;
        });
  }

  @Override
  default InternalRow[] listPartitionIdentifiers(String[] names, InternalRow ident) {
    return unchecked(() -> partitions().list(names, ident));
  }

  @Override
  default Map<String, String> loadPartitionMetadata(InternalRow ident) {
    return Map.of();
  }

  @Override
  default void replacePartitionMetadata(InternalRow ident, Map<String, String> properties) {
    throw new UnsupportedOperationException("partitions have no properties");
  }

  @Override
  default boolean truncatePartition(InternalRow ident) {
    return truncatePartitions(new InternalRow[] {ident});
  }

  @Override
  default boolean truncatePartitions(InternalRow[] idents) {
    throw refusal("truncate", "ALTER TABLE ... DROP PARTITION drops its rows");
  }

  @Override
  default boolean renamePartition(InternalRow from, InternalRow to) {
    throw refusal("rename", "its name is the values of its rows");
  }

  private RuntimeException refusal(String action, String why) {
    return new LakewardException(
            "cannot %s a partition of %s: %s".formatted(action, definition().name(), why))
        .unchecked();
  }
}
