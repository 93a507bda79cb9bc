package io.lakeward.spark;

import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.CurrentUserContext;

/** Who runs the current statement, as far as Spark knows. Not authenticated. */
final class SparkUser {

  /** Spark Connect puts the user's id into a tag. */
  private static final Pattern CONNECT_TAG =
      Pattern.compile("SparkConnect_OperationTag_User_(.*?)_Session_");

  private SparkUser() {}

  /**
   * The user of a Connect session, else the one of a Thrift session, else the one whose process
   * this is.
   */
  static String current() {
    Matcher connect = CONNECT_TAG.matcher(StatementTags.current());
    return connect.find() && !connect.group(1).isEmpty()
        ? connect.group(1)
        : CurrentUserContext.getCurrentUser();
  }
}
