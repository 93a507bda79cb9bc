package io.lakeward.spark.thrift;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.Optional;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.classic.SparkSession;
import scala.Option;

/**
 * The Thrift server of this Spark. Its classes are internal to Spark and on no class path of most
 * Sparks, so each is reached by its name.
 */
final class ThriftServer {

  private static final String SERVER =
      "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2";

  private static final String SESSIONS = "handleToSession";

  private final Object sessionManager;

  private ThriftServer(Object sessionManager) {
    this.sessionManager = sessionManager;
  }

  /** The server that runs in this process; empty if none does. */
  static Optional<ThriftServer> running() throws ReflectiveOperationException {
    Object listener;
    try {
      Class<?> server = Class.forName(SERVER, true, ThriftServer.class.getClassLoader());
      listener = server.getMethod("listener").invoke(null);
    } catch (ClassNotFoundException | NoClassDefFoundError error) {
      return Optional.empty();
    }
    if (listener == null || !(field(listener, "server") instanceof Option<?> server)) {
      return Optional.empty();
    }
    return server.isEmpty()
        ? Optional.empty()
        : Optional.of(new ThriftServer(call(field(server.get(), "cliService"), "getSessionManager")));
  }

  /**
   * Replaces the sessions of the server, those that are open and those that will be opened. Does
   * nothing if it was called before.
   */
  @SuppressWarnings("unchecked")
  void replaceSessions(UnaryOperator<Object> replacement) throws ReflectiveOperationException {
    Field field = findField(sessionManager.getClass(), SESSIONS);
    synchronized (sessionManager) {
      Map<Object, Object> sessions = (Map<Object, Object>) field.get(sessionManager);
      if (!(sessions instanceof ReplacedSessions)) {
        // A session that another thread opens meanwhile may be in the map already.
        field.set(sessionManager, new ReplacedSessions(sessions, replacement));
        sessions.replaceAll((handle, session) -> replacement.apply(session));
      }
    }
  }

  /** The Spark session of a session of the server; empty before it has one. */
  Optional<SparkSession> sparkSession(Object session) throws ReflectiveOperationException {
    Map<?, ?> sessions = (Map<?, ?>) call(operationManager(), "sessionToContexts");
    Object spark = sessions.get(call(session, "getSessionHandle"));
    return spark instanceof SparkSession classic ? Optional.of(classic) : Optional.empty();
  }

  /** Adds rows to the answer of a metadata call that has been executed. */
  void addRows(Object operationHandle, Iterable<Object[]> rows)
      throws ReflectiveOperationException {
    Object manager = operationManager();
    Method find = manager.getClass().getMethod("getOperation", operationHandle.getClass());
    Object answer = field(find.invoke(manager, operationHandle), "rowSet");
    Method add = accessible(answer.getClass().getMethod("addRow", Object[].class));
    for (Object[] row : rows) {
      add.invoke(answer, (Object) row);
    }
  }

  private Object operationManager() throws ReflectiveOperationException {
    return call(sessionManager, "getOperationManager");
  }

  /** The result of a public method without parameters. */
  static Object call(Object object, String method) throws ReflectiveOperationException {
    return accessible(object.getClass().getMethod(method)).invoke(object);
  }

  private static Object field(Object object, String name) throws ReflectiveOperationException {
    return findField(object.getClass(), name).get(object);
  }

  private static Field findField(Class<?> type, String name) throws NoSuchFieldException {
    for (Class<?> owner = type; owner != null; owner = owner.getSuperclass()) {
      for (Field field : owner.getDeclaredFields()) {
        if (field.getName().equals(name)) {
          field.setAccessible(true);
          return field;
        }
      }
    }
    throw new NoSuchFieldException(type.getName() + " has no field " + name);
  }

  private static Method accessible(Method method) {
    method.setAccessible(true);
    return method;
  }
}
