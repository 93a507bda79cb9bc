package io.lakeward.spark.fresh;

import com.google.protobuf.ByteString;
import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.spark.JobArtifactSet$;
import org.apache.spark.JobArtifactState;
import org.apache.spark.api.python.PythonUtils$;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.PythonPartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/**
 * Runs tasks of the service in the Python processes of executors, with Spark's runner for Python
 * data sources. No Python runs on the driver. All that the plugin uses of Spark's internal classes
 * for Python is in this file.
 */
final class PythonRunner {

  /** Function that returns what a Python process of Spark runs, for the JSON of a schema. */
  private static final String FUNCTION = "ctiering.union_read.spark_tasks\nread_command\n";

  private static final byte[] PROTOCOL_2 = {(byte) 0x80, 2};
  private static final byte TEXT = 'X';
  private static final byte ONE_ARGUMENT = (byte) 0x85;
  private static final byte CALL = 'R';
  private static final byte END = '.';

  /** Created by the first use, because Spark asks the driver's Python for its version then. */
  private static final class Source {
    /** It names Spark's Python. Executors never load its own function, which is empty. */
    private static final UserDefinedPythonDataSource SOURCE =
        new UserDefinedPythonDataSource(PythonUtils$.MODULE$.createPythonFunction(new byte[0]));
  }

  private PythonRunner() {}

  /** One partition for each task. */
  static InputPartition[] partitions(List<ByteString> tasks) {
    InputPartition[] partitions = new InputPartition[tasks.size()];
    for (int i = 0; i < partitions.length; i++) {
      partitions[i] = new PythonInputPartition(i, tasks.get(i).toByteArray());
    }
    return partitions;
  }

  /** A factory of readers that return rows with the columns {@code schema}. */
  static PartitionReaderFactory factory(StructType schema) {
    Option<JobArtifactState> artifacts =
        JobArtifactSet$.MODULE$.getCurrentJobArtifactState();
    return new PythonPartitionReaderFactory(
        Source.SOURCE,
        command(schema.json()),
        schema,
        artifacts.isEmpty() ? Option.empty() : Option.apply(artifacts.get().uuid()),
        Option.empty());
  }

  /** The metrics that the readers report. */
  static CustomMetric[] metrics() {
    return Source.SOURCE.createPythonMetrics();
  }

  /** The call of the function as a pickle, which Spark's Python processes load. */
  static byte[] command(String schema) {
    byte[] text = schema.getBytes(StandardCharsets.UTF_8);
    ByteArrayOutputStream pickle = new ByteArrayOutputStream();
    pickle.writeBytes(PROTOCOL_2);
    pickle.writeBytes(FUNCTION.getBytes(StandardCharsets.UTF_8));
    pickle.write(TEXT);
    pickle.writeBytes(
        ByteBuffer.allocate(Integer.BYTES)
            .order(ByteOrder.LITTLE_ENDIAN)
            .putInt(text.length)
            .array());
    pickle.writeBytes(text);
    pickle.write(ONE_ARGUMENT);
    pickle.write(CALL);
    pickle.write(END);
    return pickle.toByteArray();
  }
}
