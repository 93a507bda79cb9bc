package io.lakeward.spark.version;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.CurrentUserContext;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.util.Utils;

/** Internal classes of Spark 3.5, for the sources that all versions share. */
public final class SparkClasses {

  private SparkClasses() {}

  /** False: Spark 3.5 has no SQL scripts. */
  public static boolean isInScript() {
    return false;
  }

  /** Whether this is STRING. Spark 3.5 has no collations. */
  public static boolean isPlainString(DataType type) {
    return type instanceof StringType;
  }

  /** The user of this thread's statement, or else of the process. */
  public static String currentUser() {
    String user = CurrentUserContext.CURRENT_USER().get();
    return user == null ? Utils.getCurrentUserName() : user;
  }

  /** The UUID of the session. */
  static String uuid(SparkSession session) {
    return session.sessionUUID();
  }
}
