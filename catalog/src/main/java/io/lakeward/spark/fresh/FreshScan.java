package io.lakeward.spark.fresh;

import io.lakeward.rpc.v1.ReadScan.Part;
import io.lakeward.rpc.v1.ReadScan;
import java.util.Arrays;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.types.StructType;

/**
 * A scan of a table at the moment of a read. Python tasks return its rows. If {@link #lakeRows} is
 * present, {@link UnionRule} replaces the scan by one of the lake copy and one of the log.
 */
final class FreshScan implements SupportsReportStatistics {

  /** The rows of a changelog, whose first offsets are known only when its tasks are planned. */
  private static final String WHOLE_LOG = "whole log up to the moment of the read";

  private final OpenedRead read;
  private final ReadScan request;
  private final StructType schema;
  private final Optional<LakeRows> lakeRows;
  private final Supplier<Optional<Statistics>> lakeStatistics;
  private final boolean asColumns;

  /**
   * A scan that returns rows.
   *
   * @param schema has the columns of {@code request}, in order
   * @param lakeStatistics of the rows in the lake; asked only for a join
   */
  FreshScan(
      OpenedRead read,
      ReadScan request,
      StructType schema,
      Optional<LakeRows> lakeRows,
      Supplier<Optional<Statistics>> lakeStatistics) {
    this(read, request, schema, lakeRows, lakeStatistics, false);
  }

  private FreshScan(
      OpenedRead read,
      ReadScan request,
      StructType schema,
      Optional<LakeRows> lakeRows,
      Supplier<Optional<Statistics>> lakeStatistics,
      boolean asColumns) {
    this.read = read;
    this.request = request;
    this.schema = schema;
    this.lakeRows = lakeRows;
    this.lakeStatistics = lakeStatistics;
    this.asColumns = asColumns;
  }

  Optional<LakeRows> lakeRows() {
    return lakeRows;
  }

  /** Whether the log has records that the lake copy does not have. */
  boolean hasLogRecords() {
    return read.logBuckets() > 0;
  }

  /** Records that the lake copy has all rows, so no task is planned. */
  void setComplete() {
    read.setUsed();
  }

  /** The scan of the log part alone. It returns columns, as the lake's own scan beside it does. */
  FreshScan logRows() {
    return new FreshScan(
        read,
        request.toBuilder().setPart(Part.LOG_ROWS).build(),
        schema,
        Optional.empty(),
        Optional::empty,
        TaskReaders.executorsHavePlugin());
  }

  @Override
  public StructType readSchema() {
    return schema;
  }

  @Override
  public String description() {
    String rows = request.getPart() == Part.CHANGELOG ? WHOLE_LOG : read.toString();
    return "LakewardScan(%s, %s)".formatted(request.getPart(), rows);
  }

  /** Without this answer Spark would plan the tasks to learn it. */
  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return asColumns ? ColumnarSupportMode.SUPPORTED : ColumnarSupportMode.UNSUPPORTED;
  }

  @Override
  public Batch toBatch() {
    return new TaskBatch(read, request, schema, asColumns);
  }

  /**
   * The number of log records bounds that of log rows. The lake's library estimates the rows of the
   * lake, so that Spark broadcasts a small table. The size of KV snapshots is unknown.
   */
  @Override
  public Statistics estimateStatistics() {
    if (read.hasKvSnapshots()) {
      return statistics(OptionalLong.empty(), OptionalLong.empty());
    }
    boolean isLog =
        !read.hasLakeCopy() || request.getPart() == Part.LOG_ROWS
            || request.getPart() == Part.CHANGED_KEYS;
    Optional<Statistics> lake =
        isLog || request.getPart() != Part.ROWS ? Optional.empty() : lakeStatistics.get();
    long logBytes = read.logRecords() * (schema.defaultSize() + ROW_BYTES);
    OptionalLong rows = sum(isLog, lake.map(Statistics::numRows), read.logRecords());
    OptionalLong bytes = sum(isLog, lake.map(Statistics::sizeInBytes), logBytes);
    return statistics(rows, bytes);
  }

  private static Statistics statistics(OptionalLong rows, OptionalLong bytes) {
    return new Statistics() {
      @Override
      public OptionalLong sizeInBytes() {
        return bytes;
      }

      @Override
      public OptionalLong numRows() {
        return rows;
      }
    };
  }

  private static OptionalLong sum(boolean isLog, Optional<OptionalLong> lake, long log) {
    if (isLog) {
      return OptionalLong.of(log);
    }
    return lake.isPresent() && lake.get().isPresent()
        ? OptionalLong.of(lake.get().getAsLong() + log)
        : OptionalLong.empty();
  }

  /** Bytes of a row beside its columns, as in Spark's own estimates. */
  private static final long ROW_BYTES = 8;

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return Stream.concat(Arrays.stream(PythonRunner.metrics()), Arrays.stream(ReadMetric.all()))
        .toArray(CustomMetric[]::new);
  }

  @Override
  public CustomTaskMetric[] reportDriverMetrics() {
    return new CustomTaskMetric[] {
      ReadMetric.value(ReadMetric.LOG_RECORDS, read.logRecords()),
      ReadMetric.value(ReadMetric.LOG_BUCKETS, read.logBuckets())
    };
  }
}
