package io.lakeward.spark.fresh;

import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** The metrics of a scan that are known when it is planned. Spark loads the classes by name. */
public final class ReadMetric {

  static final String LOG_RECORDS = "logRecords";
  static final String LOG_BUCKETS = "logBuckets";

  private ReadMetric() {}

  static CustomMetric[] all() {
    return new CustomMetric[] {new LogRecords(), new LogBuckets()};
  }

  static CustomTaskMetric value(String name, long value) {
    return new Value(name, value);
  }

  private record Value(String name, long value) implements CustomTaskMetric {}

  /** The number of log records that the read has beside the lake snapshot. */
  public static final class LogRecords extends CustomSumMetric {
    @Override
    public String name() {
      return LOG_RECORDS;
    }

    @Override
    public String description() {
      return "log records beside the lake snapshot";
    }
  }

  /** The number of buckets with such log records. */
  public static final class LogBuckets extends CustomSumMetric {
    @Override
    public String name() {
      return LOG_BUCKETS;
    }

    @Override
    public String description() {
      return "buckets with log records";
    }
  }
}
