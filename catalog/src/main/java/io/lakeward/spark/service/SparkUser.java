package io.lakeward.spark.service;

import io.lakeward.spark.error.LakewardException;
import io.lakeward.spark.version.ActiveSession;
import io.lakeward.spark.version.SparkClasses;
import java.util.Arrays;
import java.util.Optional;
import org.apache.spark.sql.catalyst.CurrentUserContext;

/**
 * The user for whom the current statement runs, as Spark knows it. This plugin does not
 * authenticate the user; the service accepts the name from callers with the privilege IMPERSONATE.
 */
public final class SparkUser {

  /** Spark Connect puts the user's id into the tag that it gives an operation. */
  private static final String BEFORE_USER = SparkStatement.CONNECT_OPERATION + "User_";

  private static final String BEHIND_USER = "_Session_";

  private SparkUser() {}

  /**
   * The user of the Connect session, else of the Thrift session. Empty for a statement of the
   * process itself: then the call has the identity of its token or certificate. Throws
   * LakewardException if the session hides its user.
   */
  public static String served() {
    if (!ConnectSessions.isServed()) {
      return ofThrift();
    }
    return ofActiveSession().orElseGet(SparkUser::ofOperation);
  }

  /** The user of the statement, for a service without authentication. */
  public static String current() {
    String served = served();
    return served.isEmpty() ? SparkClasses.currentUser() : served;
  }

  /** A Thrift server records the user of a thread. */
  private static String ofThrift() {
    String user = CurrentUserContext.CURRENT_USER().get();
    return user == null ? "" : user;
  }

  /** The user of a session that Connect does not list, such as a copy that Spark plans with. */
  private static String ofOperation() {
    if (SparkStatement.hasTagsOfSession()) {
      throw new LakewardException(
              "the option spark.job.tags was set in this session, and Spark Connect names the user"
                  + " of a statement there: run RESET spark.job.tags")
          .unchecked();
    }
    String user = ofTags(SparkStatement.tags());
    return user.isEmpty() ? ofThrift() : user;
  }

  /**
   * The user of the Connect operation with these tags; empty if there is none. A tag that a user
   * sets begins differently. Two UUIDs follow the user's id, so the last separator ends the id,
   * even if the id contains the separator.
   */
  static String ofTags(String tags) {
    return Arrays.stream(tags.split(","))
        .filter(tag -> tag.startsWith(BEFORE_USER) && tag.contains(BEHIND_USER))
        .findFirst()
        .map(tag -> tag.substring(BEFORE_USER.length(), tag.lastIndexOf(BEHIND_USER)))
        .orElse("");
  }

  /**
   * The user in Connect's own list of sessions. No statement can change that list, while SET can
   * change tags.
   */
  private static Optional<String> ofActiveSession() {
    return ActiveSession.find().flatMap(session -> ConnectSessions.user(session.uuid()));
  }
}
