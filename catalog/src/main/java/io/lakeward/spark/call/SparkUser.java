package io.lakeward.spark.call;

import io.lakeward.spark.service.SparkStatement;
import org.apache.spark.sql.catalyst.CurrentUserContext;

/** The user who runs the current statement, as Spark knows it. Not authenticated. */
final class SparkUser {

  /** Spark Connect puts the user's id into a tag. */
  private static final String BEFORE_USER = "SparkConnect_OperationTag_User_";

  private static final String BEHIND_USER = "_Session_";

  private SparkUser() {}

  /** The user of a Connect session, else of a Thrift session, else of the process. */
  static String current() {
    String connect = ofTags(SparkStatement.tags());
    return connect.isEmpty() ? CurrentUserContext.getCurrentUser() : connect;
  }

  /** The user of a Connect session with these tags; empty if there is none. */
  static String ofTags(String tags) {
    int before = tags.indexOf(BEFORE_USER);
    int start = before + BEFORE_USER.length();
    int end = before < 0 ? -1 : tags.indexOf(BEHIND_USER, start);
    return end < 0 ? "" : tags.substring(start, end);
  }
}
