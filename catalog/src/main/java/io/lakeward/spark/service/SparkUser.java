package io.lakeward.spark.service;

import java.util.Arrays;
import java.util.Optional;
import org.apache.spark.sql.catalyst.CurrentUserContext;
import org.apache.spark.sql.classic.SparkSession;
import scala.Option;

/**
 * The user for whom the current statement runs, as Spark knows it. Not authenticated by this
 * plugin; the service believes it of those who may act for their users.
 */
public final class SparkUser {

  /** Spark Connect puts the user's id into the tag that it gives an operation. */
  private static final String BEFORE_USER = SparkStatement.CONNECT_OPERATION + "User_";

  private static final String BEHIND_USER = "_Session_";

  private SparkUser() {}

  /**
   * The user whom this Spark serves: of a Connect session, else of a Thrift session. Empty where a
   * statement is the process's own: then the call is made as whoever its token or certificate
   * proves, and for nobody else.
   */
  public static String served() {
    String connect = ofTags(SparkStatement.tags());
    return connect.isEmpty() ? ofActiveSession().orElseGet(SparkUser::ofThrift) : connect;
  }

  /** The user of the statement, for a service that asks nobody who they are. */
  public static String current() {
    String served = served();
    return served.isEmpty() ? CurrentUserContext.getCurrentUser() : served;
  }

  /** A Thrift server says for whom a thread works. */
  private static String ofThrift() {
    String user = CurrentUserContext.CURRENT_USER().get();
    return user == null ? "" : user;
  }

  /**
   * The user of the Connect operation with these tags; empty if there is none. Tags that users give
   * themselves begin otherwise, whatever is in them. What stands behind the user's id are two
   * UUIDs, so that an id with their names in it is whole all the same.
   */
  static String ofTags(String tags) {
    return Arrays.stream(tags.split(","))
        .filter(tag -> tag.startsWith(BEFORE_USER) && tag.contains(BEHIND_USER))
        .findFirst()
        .map(tag -> tag.substring(BEFORE_USER.length(), tag.lastIndexOf(BEHIND_USER)))
        .orElse("");
  }

  /** What Connect only analyses, as for a frame's columns, is no operation and has no tag. */
  private static Optional<String> ofActiveSession() {
    Option<SparkSession> session = SparkSession.getActiveSession();
    return session.isEmpty() ? Optional.empty() : ConnectSessions.user(session.get().sessionUUID());
  }
}
