package io.lakeward.spark.fresh;

import io.lakeward.spark.scan.DriverRowsScan;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** The number of rows of a table, which the service has without reading them. */
record RowCountScan(String table, long count) implements DriverRowsScan {

  @Override
  public StructType readSchema() {
    return new StructType(
        new StructField[] {DataTypes.createStructField("count(*)", DataTypes.LongType, false)});
  }

  @Override
  public InternalRow[] rows() {
    return new InternalRow[] {new GenericInternalRow(new Object[] {count})};
  }

  @Override
  public String description() {
    return "LakewardCount(%s)".formatted(table);
  }
}
