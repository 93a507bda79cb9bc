package io.lakeward.spark.fresh;

import static io.lakeward.spark.error.LakewardException.unchecked;

import io.lakeward.spark.error.LakewardException.Work;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;

/**
 * A scan for which Spark pushed nothing down, as for a streaming query. It opens no read, which
 * would keep the rows of one moment for as long as the query runs.
 *
 * @param table shown in plans
 * @param rows the same scan as a batch
 */
record StreamScan(String table, StructType schema, StreamBatches batches, Work<FreshScan> rows)
    implements Scan {

  @Override
  public StructType readSchema() {
    return schema;
  }

  @Override
  public String description() {
    return "LakewardStream(" + table + ")";
  }

  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return ColumnarSupportMode.UNSUPPORTED;
  }

  @Override
  public Batch toBatch() {
    return unchecked(rows).toBatch();
  }

  @Override
  public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
    batches.limit(); // refuses wrong options before the query runs
    return new FreshStream(batches, schema);
  }
}
