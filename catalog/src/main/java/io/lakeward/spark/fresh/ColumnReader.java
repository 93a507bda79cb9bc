package io.lakeward.spark.fresh;

import java.io.IOException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.execution.RowToColumnConverter;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * The rows of a task as batches of columns. Spark combines the scans of lake and log by columns only
 * if both return columns. Otherwise it copies each row of the lake. Executors load this class.
 */
final class ColumnReader implements PartitionReader<ColumnarBatch> {

  /** As many as Spark's readers of Parquet return at once. */
  private static final int ROWS = 4_096;

  private final PartitionReader<InternalRow> rows;
  private final RowToColumnConverter converter;
  private final WritableColumnVector[] columns;
  private final ColumnarBatch batch;

  ColumnReader(PartitionReader<InternalRow> rows, StructType schema) {
    this.rows = rows;
    this.converter = new RowToColumnConverter(schema);
    this.columns = OnHeapColumnVector.allocateColumns(ROWS, schema);
    this.batch = new ColumnarBatch(columns);
  }

  @Override
  public boolean next() throws IOException {
    for (WritableColumnVector column : columns) {
      column.reset();
    }
    int count = 0;
    while (count < ROWS && rows.next()) {
      converter.convert(rows.get(), columns);
      count++;
    }
    batch.setNumRows(count);
    return count > 0;
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
