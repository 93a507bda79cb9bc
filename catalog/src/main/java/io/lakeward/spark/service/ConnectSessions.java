package io.lakeward.spark.service;

import java.util.Optional;
import org.apache.spark.sql.classic.SparkSession;
import scala.collection.Iterator;
import scala.collection.Seq;

/**
 * The sessions of the Spark Connect server in this JVM, and whose they are. By reflection: a Spark
 * need not have Connect, and says so only inside its own packages.
 */
final class ConnectSessions {

  private static final String SERVICE = "org.apache.spark.sql.connect.service.SparkConnectService$";

  /** Null in a Spark without Connect. */
  private static final Object SERVER = server();

  private ConnectSessions() {}

  /**
   * The user whose session has that UUID; empty if it is no session of Connect. Throws
   * IllegalStateException if Connect runs and cannot be asked: a user is never taken for another.
   */
  static Optional<String> user(String sessionUuid) {
    if (SERVER == null) {
      return Optional.empty();
    }
    try {
      if (!(Boolean) call(SERVER, "started")) {
        return Optional.empty();
      }
      Object sessions = call(call(SERVER, "sessionManager"), "listActiveSessions");
      for (Iterator<?> all = ((Seq<?>) sessions).iterator(); all.hasNext(); ) {
        Object session = all.next();
        if (sessionUuid.equals(call(session, "serverSessionId"))) {
          return Optional.of((String) call(session, "userId"));
        }
      }
      return Optional.empty();
    } catch (ReflectiveOperationException | ClassCastException changed) {
      throw new IllegalStateException(
          "this version of Spark Connect does not say whose a session is", changed);
    }
  }

  private static Object server() {
    try {
      Class<?> service = Class.forName(SERVICE, true, SparkSession.class.getClassLoader());
      return service.getField("MODULE$").get(null);
    } catch (ReflectiveOperationException | LinkageError absent) {
      return null;
    }
  }

  private static Object call(Object target, String method) throws ReflectiveOperationException {
    return target.getClass().getMethod(method).invoke(target);
  }
}
