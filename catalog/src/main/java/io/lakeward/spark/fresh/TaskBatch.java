package io.lakeward.spark.fresh;

import static io.lakeward.spark.error.LakewardException.unchecked;

import io.lakeward.rpc.v1.ReadScan;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;

/**
 * The tasks of a scan, which the service plans when Spark executes it. Two batches are equal if
 * they return the same rows, so that Spark runs the same scan of one statement once.
 *
 * @param asColumns whether readers return columns, not rows
 */
record TaskBatch(OpenedRead read, ReadScan request, StructType schema, boolean asColumns)
    implements Batch {

  @Override
  public InputPartition[] planInputPartitions() {
    OpenReads.installed().keep(read);
    return PythonRunner.partitions(unchecked(() -> read.tasks(request)), read);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return TaskReaders.of(read.python(), schema, read.table(), asColumns);
  }
}
