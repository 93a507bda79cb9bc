package io.lakeward.spark.fresh;

import com.google.protobuf.ByteString;
import io.lakeward.spark.error.LakewardException;
import java.io.IOException;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;

/**
 * Refuses tasks of the service: Spark 3.5 has no Python data sources, which run them in Spark 4.
 */
public final class PythonRunner {

  private PythonRunner() {}

  /** Throws LakewardException. */
  static InputPartition[] partitions(List<ByteString> tasks, OpenedRead read) {
    throw refusal().unchecked();
  }

  /** Throws LakewardException, and never the IOException of the runner for Spark 4. */
  static PartitionReaderFactory factory(Optional<String> python, StructType schema)
      throws IOException {
    throw refusal().unchecked();
  }

  /** No metrics: no reader reports any. */
  static CustomMetric[] metrics() {
    return new CustomMetric[0];
  }

  private static LakewardException refusal() {
    return new LakewardException(
        "Spark 3.5 cannot read the rows that are in the log alone, because it has no Python data"
            + " sources. Read the lake copy by the name of the table with $lake, such as"
            + " fluss.db.`t$lake`, or set the option plain-name of the catalog to lake. Spark 4.0 and"
            + " newer read all rows");
  }
}
