package io.lakeward.spark.define;

import io.lakeward.rpc.v1.ColumnPath;
import io.lakeward.rpc.v1.Literal;
import io.lakeward.rpc.v1.PartitionTransform;
import io.lakeward.rpc.v1.PartitionValues;
import io.lakeward.spark.error.LakewardException;
import io.lakeward.spark.service.Literals;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** Writes columns, partition expressions and partition values for the service. */
final class Columns {

  private Columns() {}

  /** The columns as the JSON of a schema, with comments, default values and generation. */
  static String json(Column[] columns) {
    return CatalogV2Util.v2ColumnsToStructType(columns).json();
  }

  /** One column as the JSON of a schema; {@code comment} may be null. */
  static String json(String name, DataType type, boolean nullable, String comment) {
    StructField field =
        new StructField(name, type, nullable, org.apache.spark.sql.types.Metadata.empty());
    return new StructType(
            new StructField[] {comment == null ? field : field.withComment(comment)})
        .json();
  }

  static ColumnPath path(String[] names) {
    return ColumnPath.newBuilder().addAllNames(Arrays.asList(names)).build();
  }

  static List<PartitionTransform> partitioning(Transform[] transforms) {
    List<PartitionTransform> partitioning = new ArrayList<>();
    for (Transform transform : transforms) {
      PartitionTransform.Builder message =
          PartitionTransform.newBuilder().setName(transform.name()).setText(transform.describe());
      NamedReference[] references = transform.references();
      if (references.length == 1) {
        message.setColumn(path(references[0].fieldNames()));
      }
      partitioning.add(message.build());
    }
    return partitioning;
  }

  /** Throws LakewardException for a NULL, and for a type without literals. */
  static List<PartitionValues> values(InternalRow[] partitions, StructType schema)
      throws LakewardException {
    List<PartitionValues> all = new ArrayList<>();
    for (InternalRow partition : partitions) {
      PartitionValues.Builder values = PartitionValues.newBuilder();
      for (int i = 0; i < schema.length(); i++) {
        values.addValues(value(partition, i, schema.fields()[i]));
      }
      all.add(values.build());
    }
    return all;
  }

  private static Literal value(InternalRow partition, int index, StructField column)
      throws LakewardException {
    if (partition.isNullAt(index)) {
      return Literal.getDefaultInstance();
    }
    DataType type = column.dataType();
    return Literals.of(partition.get(index, type), type)
        .orElseThrow(
            () ->
                new LakewardException(
                    "the partition column %s has the type %s, which this version of the plugin cannot send"
                        .formatted(column.name(), type.sql())));
  }
}
