package io.lakeward.spark.service;

import java.util.List;
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

  /** Open sessions first: a session leaves them when it enters the closed ones, which are kept. */
  private static final List<String> LISTINGS = List.of("listActiveSessions", "listClosedSessions");

  /** Null in a Spark without Connect. */
  private static final Object SERVER = server();

  private ConnectSessions() {}

  /**
   * Whether a Connect server runs in this JVM. Throws IllegalStateException if there is one that
   * cannot be asked.
   */
  static boolean isServed() {
    return SERVER != null && (Boolean) answer(() -> call(SERVER, "started"));
  }

  /**
   * The user whose session has that UUID, also of one that was closed under its statement; empty if
   * it is no session of Connect. Throws IllegalStateException if Connect runs and cannot be asked:
   * a user is never taken for another.
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
