package io.lakeward.spark.fresh;

import io.lakeward.spark.error.LakewardException;
import java.io.IOException;
import java.nio.file.Path;
import java.security.CodeSource;
import java.util.Optional;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.QuotingUtils;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Spark's readers of Python tasks, with an error that names the remedy if an executor has no Python
 * or no package. Executors load this class.
 *
 * @param table whose rows are read
 * @param schema of the rows
 * @param asColumns whether readers return columns, not rows
 */
record TaskReaders(
    PartitionReaderFactory readers, String table, StructType schema, boolean asColumns)
    implements PartitionReaderFactory {

  /**
   * Readers of the tasks of {@code table} with the columns {@code schema}. Throws LakewardException
   * if the driver does not have the Python.
   *
   * @param python of executors; empty = Spark's
   * @param asColumns whether readers return columns; only if {@link #executorsHavePlugin}
   */
  static PartitionReaderFactory of(
      Optional<String> python, StructType schema, String table, boolean asColumns) {
    try {
      PartitionReaderFactory readers = PythonRunner.factory(python, schema);
      return executorsHavePlugin() ? new TaskReaders(readers, table, schema, asColumns) : readers;
    } catch (IOException error) {
      throw unavailable(
          "the driver has no such Python as executors need (%s)".formatted(error.getMessage()),
          table,
          error);
    }
  }

  /** Whether executors can load the classes of this plugin, which only a driver needs otherwise. */
  static boolean executorsHavePlugin() {
    SparkContext context = SparkContext.getOrCreate();
    CodeSource jar = TaskReaders.class.getProtectionDomain().getCodeSource();
    if (context.isLocal() || jar == null) {
      return context.isLocal();
    }
    String name = Path.of(jar.getLocation().getPath()).getFileName().toString();
    return context.listJars().exists(sent -> sent.endsWith("/" + name));
  }

  @Override
  public boolean supportColumnarReads(InputPartition partition) {
    return asColumns;
  }

  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    return new ColumnReader(createReader(partition), schema);
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    try {
      return new Reader(readers.createReader(partition), table);
    } catch (Exception error) { // Scala declares no checked exceptions
      throw LakewardException.unchecked(translated(error, table));
    }
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
    String problem = PythonProblems.of(String.valueOf(error.getMessage()));
    if (problem == null) {
      return error;
    }
    throw unavailable(problem, table, error);
  }

  private static RuntimeException unavailable(String problem, String table, Exception cause) {
    String message =
        ("[FreshReadUnavailable] cannot read the rows of %s up to now: %s. Install the package"
                + " lakeward for a Python that driver and executors have at the same path, and name"
                + " it in the option python of this catalog, or in PYSPARK_PYTHON in the driver's"
                + " environment. Without it read the lake copy alone: by the name %s, or with the"
                + " option plain-name=lake of this catalog")
            .formatted(table, problem, lakeName(table));
    return new LakewardException(message, cause).unchecked();
  }

  private static String lakeName(String table) {
    int dot = table.indexOf('.');
    return QuotingUtils.quoteIfNeeded(table.substring(0, dot))
        + "."
        + QuotingUtils.quoteIdentifier(table.substring(dot + 1) + "$lake");
  }
}
