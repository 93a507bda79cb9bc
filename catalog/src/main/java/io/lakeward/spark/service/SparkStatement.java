package io.lakeward.spark.service;

import io.lakeward.spark.version.ActiveSession;
import org.apache.spark.SparkContext;

/** The statement that this thread runs. */
public final class SparkStatement {

  /** Beginning of the tag that Spark Connect gives an operation. */
  public static final String CONNECT_OPERATION = "SparkConnect_OperationTag_";

  private static final String PROPERTY = "spark.job.tags";

  private SparkStatement() {}

  /** The tags of the statement, separated by commas; may be empty. A user may have SET them. */
  public static String tags() {
    String tags = SparkContext.getOrCreate().getLocalProperty(PROPERTY);
    return tags == null ? "" : tags;
  }

  /**
   * Whether a user has SET tags in the active session. Spark copies the options of a session over
   * the properties of the thread that executes its statement, so {@link #tags()} returns them.
   */
  static boolean hasTagsOfSession() {
    return ActiveSession.find().filter(session -> session.hasOption(PROPERTY)).isPresent();
  }
}
