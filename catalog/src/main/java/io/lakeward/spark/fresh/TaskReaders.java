package io.lakeward.spark.fresh;

import io.lakeward.spark.error.LakewardException;
import java.io.IOException;
import java.util.Locale;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;

/**
 * Spark's readers of Python tasks, with an error that names the remedy if an executor has no Python
 * or no package. Executors load this class.
 *
 * @param table whose rows are read
 */
record TaskReaders(PartitionReaderFactory readers, String table) implements PartitionReaderFactory {

  /** Part of the message of Java for a program that does not exist. */
  private static final String NO_PROGRAM = "cannot run program";

  /** The error of Python for a package that is not installed. */
  private static final String NO_MODULE = "No module named 'tiering";

  /** The error of Python for a package that is older than this plugin. */
  private static final String NO_FUNCTION = "tiering.union_read";

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    return new Reader(readers.createReader(partition), table);
  }

  private record Reader(PartitionReader<InternalRow> rows, String table)
      implements PartitionReader<InternalRow> {

    @Override
    public boolean next() throws IOException {
      try {
        return rows.next();
      } catch (IOException error) {
        throw translated(error, table);
      } catch (RuntimeException error) {
        throw translated(error, table);
      }
    }

    @Override
    public InternalRow get() {
      return rows.get();
    }

    @Override
    public CustomTaskMetric[] currentMetricsValues() {
      return rows.currentMetricsValues();
    }

    @Override
    public void close() throws IOException {
      rows.close();
    }
  }

  /** The error to show; Spark's own if it is not about the Python of executors. */
  static <E extends Exception> E translated(E error, String table) {
    String problem = problem(String.valueOf(error.getMessage()));
    if (problem == null) {
      return error;
    }
    String message =
        ("[FreshReadUnavailable] %s, which reads the log of %s. Let PYSPARK_PYTHON name such a"
                + " Python on each executor (spark.executorEnv.PYSPARK_PYTHON; spark.archives sends"
                + " one there), or read the lake copy alone: its name is that of the table with the"
                + " suffix $lake")
            .formatted(problem, table);
    throw new LakewardException(message, error).unchecked();
  }

  private static String problem(String message) {
    if (message.toLowerCase(Locale.ROOT).contains(NO_PROGRAM)) {
      return "an executor has no Python with the package lakeward";
    }
    if (message.contains(NO_MODULE)) {
      return message.contains(NO_MODULE + "'")
          ? "the Python of an executor does not have the package lakeward"
          : "the Python of an executor has another version of the package lakeward";
    }
    return message.contains(NO_FUNCTION) && message.contains("AttributeError")
        ? "the Python of an executor has another version of the package lakeward"
        : null;
  }
}
