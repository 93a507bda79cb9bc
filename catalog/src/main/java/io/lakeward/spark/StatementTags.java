package io.lakeward.spark;

import org.apache.spark.SparkContext;

/** The tags that Spark keeps of the statement that this thread runs, parted by commas. */
final class StatementTags {

  /** How the tag begins that Spark Connect gives each of its operations. */
  static final String CONNECT_OPERATION = "SparkConnect_OperationTag_";

  private static final String PROPERTY = "spark.job.tags";

  private StatementTags() {}

  /** Empty if there are none. */
  static String current() {
    String tags = SparkContext.getOrCreate().getLocalProperty(PROPERTY);
    return tags == null ? "" : tags;
  }
}
