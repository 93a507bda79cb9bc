package io.lakeward.spark.fresh;

import com.google.protobuf.ByteString;
import io.lakeward.spark.error.LakewardException;
import io.lakeward.spark.scan.ScalaSequences;
import io.lakeward.spark.version.SparkClasses;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.JobArtifactSet$;
import org.apache.spark.JobArtifactState;
import org.apache.spark.api.python.PythonUtils$;
import org.apache.spark.api.python.SimplePythonFunction;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MapInArrow;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.PythonPartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/**
 * Runs tasks of the service in the Python processes of executors, with Spark's runner for Python
 * data sources. On the driver Python only tells its version. All that the plugin uses of Spark's
 * internal classes for Python is in this file.
 */
public final class PythonRunner {

  /** Function that returns what a Python process of Spark runs, for the JSON of a schema. */
  private static final String READ = "ctiering.union_read.spark_tasks\nread_command\n";

  /** Function that returns what it runs to write rows, for the work of the service in base64. */
  private static final String WRITE = "ctiering.table_writes.spark_tasks\nwrite_command\n";

  /** Answer of a task that writes: the number of its rows (tiering/table_writes/spark_tasks.py). */
  private static final StructType WRITTEN =
      new StructType().add("rows", DataTypes.LongType, false);

  /** Spark's number of the functions that map Arrow batches (PythonEvalType). */
  private static final int MAP_ARROW = 207;

  private static final byte[] PROTOCOL_2 = {(byte) 0x80, 2};
  private static final byte TEXT = 'X';
  private static final byte ONE_ARGUMENT = (byte) 0x85;
  private static final byte CALL = 'R';
  private static final byte END = '.';

  /** The variable with the Python of executors, in the environment of the driver. */
  private static final String PYSPARK_PYTHON = "PYSPARK_PYTHON";

  private static final String PYTHON_PATH = "PYTHONPATH";
  private static final String VERSION = "import sys; print('%d.%d' % sys.version_info[:2])";

  /** The versions of the Pythons that were asked, because a start takes some milliseconds. */
  private static final Map<String, String> VERSIONS = new ConcurrentHashMap<>();

  private PythonRunner() {}

  /**
   * A task on the driver. Spark may run it when the plan is garbage, as for an iterator or {@code
   * df.rdd}, so it keeps its read reachable. Executors get Spark's own class, because they may not
   * have this plugin.
   */
  private static final class TaskPartition extends PythonInputPartition {
    private final transient OpenedRead read;

    private TaskPartition(int index, byte[] task, OpenedRead read) {
      super(index, task);
      this.read = read;
    }

    private Object writeReplace() {
      return new PythonInputPartition(index(), pickedPartition());
    }
  }

  /**
   * One partition for each task.
   *
   * @param read which the tasks belong to; null for a stream, which has none
   */
  static InputPartition[] partitions(List<ByteString> tasks, OpenedRead read) {
    InputPartition[] partitions = new InputPartition[tasks.size()];
    for (int i = 0; i < partitions.length; i++) {
      partitions[i] = new TaskPartition(i, tasks.get(i).toByteArray(), read);
    }
    return partitions;
  }

  /**
   * A factory of readers that return rows with the columns {@code schema}.
   *
   * @param python of executors; empty = the one that PYSPARK_PYTHON names, else python3
   * @throws IOException if the driver does not have that Python
   */
  static PartitionReaderFactory factory(Optional<String> python, StructType schema)
      throws IOException {
    String program = program(python);
    Option<JobArtifactState> artifacts =
        JobArtifactSet$.MODULE$.getCurrentJobArtifactState();
    return SparkClasses.create(
        PythonPartitionReaderFactory.class,
        source(program, version(program)),
        command(READ, schema.json()),
        schema,
        artifacts.isEmpty() ? Option.empty() : Option.apply(artifacts.get().uuid()),
        Option.empty());
  }

  /**
   * Writes the rows of {@code rows} on executors, and returns how many these are.
   *
   * @param python of executors; empty = the one that PYSPARK_PYTHON names, else python3
   * @param work of the service, in base64
   * @throws IOException if the driver does not have that Python
   */
  public static long write(Optional<String> python, String work, LogicalPlan rows)
      throws IOException {
    String program = program(python);
    PythonUDF function =
        new PythonUDF(
            "write",
            function(program, version(program), command(WRITE, work)),
            WRITTEN,
            ScalaSequences.cast(rows.output()),
            MAP_ARROW,
            true,
            NamedExpression.newExprId());
    LogicalPlan mapped =
        new MapInArrow(
            function,
            ScalaSequences.cast(DataTypeUtils.toAttributes(WRITTEN)),
            rows,
            false,
            Option.empty());
    return Dataset$.MODULE$.ofRows(SparkSession.active(), mapped).collectAsList().stream()
        .mapToLong(row -> row.getLong(0))
        .sum();
  }

  /** The metrics that the readers report. */
  static CustomMetric[] metrics() {
    return source("", "").createPythonMetrics();
  }

  private static String program(Optional<String> python) {
    return python.orElseGet(() -> System.getenv().getOrDefault(PYSPARK_PYTHON, "python3"));
  }

  /** It names a Python. Executors never load its own function, which is empty. */
  private static UserDefinedPythonDataSource source(String program, String version) {
    return new UserDefinedPythonDataSource(function(program, version, new byte[0]));
  }

  private static SimplePythonFunction function(String program, String version, byte[] command) {
    String path =
        PythonUtils$.MODULE$.mergePythonPaths(
            ScalaSequences.of(
                PythonUtils$.MODULE$.sparkPythonPath(),
                System.getenv().getOrDefault(PYTHON_PATH, "")));
    return new SimplePythonFunction(
        command,
        new HashMap<>(Map.of(PYTHON_PATH, path)),
        List.of(),
        program,
        version,
        List.of(),
        null);
  }

  /** The minor version, because Spark's Python processes refuse the work of another one. */
  private static String version(String program) throws IOException {
    String version = VERSIONS.get(program);
    if (version == null) {
      Process process =
          new ProcessBuilder(program, "-c", VERSION)
              .redirectError(ProcessBuilder.Redirect.DISCARD)
              .start();
      process.getOutputStream().close();
      version = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8).trim();
      if (version.isEmpty()) {
        throw new IOException("Cannot run program \"%s\": it prints no version".formatted(program));
      }
      VERSIONS.put(program, version);
    }
    return version;
  }

  /** The call of the function as a pickle, which Spark's Python processes load. */
  static byte[] command(String function, String argument) {
    byte[] text = argument.getBytes(StandardCharsets.UTF_8);
    ByteArrayOutputStream pickle = new ByteArrayOutputStream();
    pickle.writeBytes(PROTOCOL_2);
    pickle.writeBytes(function.getBytes(StandardCharsets.UTF_8));
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
