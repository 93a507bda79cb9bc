package io.lakeward.spark.define;

import io.lakeward.spark.error.LakewardException;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * The partitions of one table. A value.
 *
 * @param schema the partition columns, with the types of the store
 */
public record Partitions(
    Definitions definitions, String database, String table, StructType schema) {

  /** The partition columns {@code keys} of a table with these columns. */
  public static StructType schema(StructType columns, List<String> keys) {
    return new StructType(
        keys.stream().map(columns::apply).toArray(StructField[]::new));
  }

  /** Creates the missing ones. Throws LakewardException for a partition with properties. */
  public void add(InternalRow[] partitions, Map<String, String>[] properties)
      throws LakewardException {
    for (Map<String, String> of : properties) {
      if (!of.isEmpty()) {
        throw new LakewardException(
            "a partition of %s.%s has no location and no properties".formatted(database, table));
      }
    }
    definitions.addPartitions(database, table, partitions, schema);
  }

  public void drop(InternalRow[] partitions) throws LakewardException {
    definitions.dropPartitions(database, table, partitions, schema);
  }

  /** The partitions whose columns {@code names} have the values of {@code values}. */
  public InternalRow[] list(String[] names, InternalRow values) throws LakewardException {
    if (schema.isEmpty()) {
      return new InternalRow[0];
    }
    return Arrays.stream(definitions.partitions(database, table, schema))
        .filter(partition -> matches(partition, names, values))
        .toArray(InternalRow[]::new);
  }

  private boolean matches(InternalRow partition, String[] names, InternalRow values) {
    for (int i = 0; i < names.length; i++) {
      int index = schema.fieldIndex(names[i]);
      DataType type = schema.fields()[index].dataType();
      if (values.isNullAt(i) || !partition.get(index, type).equals(values.get(i, type))) {
        return false;
      }
    }
    return true;
  }
}
