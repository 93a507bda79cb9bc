package io.lakeward.spark.fresh;

import java.io.IOException;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.execution.RowToColumnConverter;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * The rows of a task as batches of columns. Spark combines the scans of lake and log by columns only
 * if both return columns. Otherwise it copies each row of the lake. Executors load this class.
 */
final class ColumnReader implements PartitionReader<ColumnarBatch> {

  /** As many as Spark's readers of Parquet return at once. */
  private static final int ROWS = 4_096;

  /**
   * A batch ends with the row that passes this size, because 4,096 large rows would need gigabytes.
   * The vectors may take twice as much.
   */
  private static final long BYTES = 16L << 20;

  /** Bytes of the offset and the length with which a vector finds a value in its child vectors. */
  private static final long POSITION_BYTES = 8;

  private final PartitionReader<InternalRow> rows;
  private final RowToColumnConverter converter;
  private final WritableColumnVector[] columns;
  private final WritableColumnVector[] parents;
  private final long rowBytes;
  private final ColumnarBatch batch;

  ColumnReader(PartitionReader<InternalRow> rows, StructType schema) {
    this.rows = rows;
    this.converter = new RowToColumnConverter(schema);
    this.columns = OnHeapColumnVector.allocateColumns(ROWS, schema);
    this.parents =
        Arrays.stream(columns)
            .filter(column -> hasChildren(column.dataType()))
            .toArray(WritableColumnVector[]::new);
    this.rowBytes = Arrays.stream(columns).mapToLong(ColumnReader::valueBytes).sum();
    this.batch = new ColumnarBatch(columns);
  }

  @Override
  public boolean next() throws IOException {
    for (WritableColumnVector column : columns) {
      column.reset();
    }
    int count = 0;
    while (count < ROWS && (count == 0 || bytes(count) < BYTES) && rows.next()) {
      converter.convert(rows.get(), columns);
      count++;
    }
    batch.setNumRows(count);
    return count > 0;
  }

  /** Bytes of {@code count} rows. It runs for every row, so only vectors with children are asked. */
  private long bytes(int count) {
    long bytes = count * rowBytes;
    for (WritableColumnVector parent : parents) {
      bytes += childBytes(parent);
    }
    return bytes;
  }

  private static long childBytes(WritableColumnVector parent) {
    long bytes = 0;
    for (int i = 0; i < parent.getNumChildren(); i++) {
      WritableColumnVector child = parent.getChild(i);
      bytes += child.getElementsAppended() * valueBytes(child);
      if (hasChildren(child.dataType())) {
        bytes += childBytes(child);
      }
    }
    return bytes;
  }

  /** Bytes of a value in a vector itself, without those in its children. */
  private static long valueBytes(WritableColumnVector column) {
    return hasChildren(column.dataType()) ? POSITION_BYTES : column.dataType().defaultSize();
  }

  /** Whether a vector of the type has its values in child vectors. Others have no children to ask. */
  private static boolean hasChildren(DataType type) {
    return type instanceof StringType
        || type instanceof BinaryType
        || type instanceof ArrayType
        || type instanceof MapType
        || type instanceof StructType
        || DecimalType.isByteArrayDecimalType(type);
  }

  @Override
  public ColumnarBatch get() {
    return batch;
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    return rows.currentMetricsValues();
  }

  @Override
  public void close() throws IOException {
    batch.close();
    rows.close();
  }
}
