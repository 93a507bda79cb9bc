package io.lakeward.spark.service;

import java.util.List;
import java.util.Optional;
import org.apache.spark.SparkContext;
import scala.collection.Iterator;
import scala.collection.Seq;

/**
 * The sessions of the Spark Connect server in this JVM, with their users. Reflection is used
 * because a Spark may lack Connect, and because Connect's classes are private to Spark's packages.
 */
final class ConnectSessions {

  private static final String SERVICE = "org.apache.spark.sql.connect.service.SparkConnectService$";

  /** Open sessions first, so that a session that is closed between the two calls is found. */
  private static final List<String> LISTINGS = List.of("listActiveSessions", "listClosedSessions");

  /** Null in a Spark without Connect. */
  private static final Object SERVER = server();

  private ConnectSessions() {}

  /**
   * Whether a Connect server runs in this JVM. Throws IllegalStateException for an unsupported
   * version of Connect.
   */
  static boolean isServed() {
    return SERVER != null && (Boolean) answer(() -> call(SERVER, "started"));
  }

  /**
   * The user of the session with that UUID, even if the session was closed while its statement
   * runs. Empty if it is no session of Connect. Throws IllegalStateException if Connect runs and
   * does not answer, so that no user gets the rights of another.
   */
  static Optional<String> user(String sessionUuid) {
    if (!isServed()) {
      return Optional.empty();
    }
    return answer(
        () -> {
          Object manager = call(SERVER, "sessionManager");
          for (String listing : LISTINGS) {
            Iterator<?> sessions = ((Seq<?>) call(manager, listing)).iterator();
            while (sessions.hasNext()) {
              Object session = sessions.next();
              if (sessionUuid.equals(call(session, "serverSessionId"))) {
                return Optional.of((String) call(session, "userId"));
              }
            }
          }
          return Optional.empty();
        });
  }

  /** A question to Connect. */
  @FunctionalInterface
  private interface Question<T> {
    T ask() throws ReflectiveOperationException;
  }

  private static <T> T answer(Question<T> question) {
    try {
      return question.ask();
    } catch (ReflectiveOperationException | ClassCastException changed) {
      throw new IllegalStateException(
          "this version of Spark Connect does not say whose a session is", changed);
    }
  }

  private static Object server() {
    try {
      Class<?> service = Class.forName(SERVICE, true, SparkContext.class.getClassLoader());
      return service.getField("MODULE$").get(null);
    } catch (ReflectiveOperationException | LinkageError absent) {
      return null;
    }
  }

  private static Object call(Object target, String method) throws ReflectiveOperationException {
    return target.getClass().getMethod(method).invoke(target);
  }
}
