package io.lakeward.spark.service;

import org.apache.spark.SparkContext;

/** The statement that this thread runs. */
public final class SparkStatement {

  /** Beginning of the tag that Spark Connect gives an operation. */
  public static final String CONNECT_OPERATION = "SparkConnect_OperationTag_";

  private static final String PROPERTY = "spark.job.tags";

  private SparkStatement() {}

  /** Its tags, separated by commas; empty without any. */
  public static String tags() {
    String tags = SparkContext.getOrCreate().getLocalProperty(PROPERTY);
    return tags == null ? "" : tags;
  }
}
