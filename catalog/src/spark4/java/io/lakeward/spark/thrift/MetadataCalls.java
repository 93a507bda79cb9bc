package io.lakeward.spark.thrift;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.CurrentUserContext;
import org.apache.spark.sql.classic.SparkSession;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;

/**
 * A session of Spark's Thrift server whose calls {@code getSchemas}, {@code getTables} and {@code
 * getColumns} list the current catalog if that is one of Lakeward. Spark itself lists its built-in
 * catalog, whatever the current one is, so the tree of a GUI tool would stay empty.
 */
public final class MetadataCalls implements InvocationHandler {

  private static final Logger LOG = LoggerFactory.getLogger(MetadataCalls.class);

  /** A pattern of schemas that matches none of Spark's built-in catalog. */
  private static final String NO_SCHEMA = "none of the built-in catalog";

  private final ThriftServer server;
  private final Object session;

  private MetadataCalls(ThriftServer server, Object session) {
    this.server = server;
    this.session = session;
  }

  /**
   * Lets the sessions of a Thrift server in this process list their current catalog. Each catalog
   * that starts calls this method, because the server may have started after the one before. Where
   * Spark is built differently, its own answers remain, with a warning in the log.
   */
  public static void install() {
    try {
      Optional<ThriftServer> server = ThriftServer.running();
      if (server.isPresent()) {
        server.get().replaceSessions(session -> listing(server.get(), session));
      }
    } catch (ReflectiveOperationException | RuntimeException error) {
      LOG.warn("the metadata calls of JDBC list nothing of this catalog", error);
    }
  }

  private static Object listing(ThriftServer server, Object session) {
    if (Proxy.isProxyClass(session.getClass())
        && Proxy.getInvocationHandler(session) instanceof MetadataCalls) {
      return session;
    }
    Class<?>[] interfaces = interfaces(session.getClass()).toArray(Class<?>[]::new);
    ClassLoader loader = session.getClass().getClassLoader();
    return Proxy.newProxyInstance(loader, interfaces, new MetadataCalls(server, session));
  }

  private static List<Class<?>> interfaces(Class<?> type) {
    return type == null
        ? List.of()
        : Stream.concat(
                Arrays.stream(type.getInterfaces()), interfaces(type.getSuperclass()).stream())
            .distinct()
            .toList();
  }

  @Override
  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    Optional<SparkSession> spark =
        MetadataRows.isListing(method.getName()) ? server.sparkSession(session) : Optional.empty();
    Optional<List<Object[]>> rows =
        spark.isEmpty() ? Optional.empty() : rows(spark.get(), method.getName(), arguments);
    if (rows.isEmpty()) {
      return forward(method, arguments);
    }
    Object[] withoutBuiltIn = arguments.clone();
    withoutBuiltIn[MetadataRows.SCHEMAS] = NO_SCHEMA;
    Object operationHandle = forward(method, withoutBuiltIn);
    server.addRows(operationHandle, rows.get());
    return operationHandle;
  }

  /** The rows of the current catalog, listed for the user of the session. */
  private Optional<List<Object[]>> rows(SparkSession spark, String call, Object[] arguments)
      throws ReflectiveOperationException {
    Option<SparkSession> before = SparkSession.getActiveSession();
    SparkSession.setActiveSession(spark);
    CurrentUserContext.CURRENT_USER().set((String) ThriftServer.call(session, "getUserName"));
    try {
      return CatalogTree.current(spark).map(tree -> new MetadataRows(tree).of(call, arguments));
    } finally {
      CurrentUserContext.CURRENT_USER().remove();
      SparkSession.clearActiveSession();
      before.foreach(
          active -> {
            SparkSession.setActiveSession(active);
            return null;
          });
    }
  }

  private Object forward(Method method, Object[] arguments) throws Throwable {
    try {
      return method.invoke(session, arguments);
    } catch (InvocationTargetException error) {
      throw error.getCause();
    }
  }
}
