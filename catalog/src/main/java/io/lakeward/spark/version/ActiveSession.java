package io.lakeward.spark.version;

import io.lakeward.spark.error.LakewardException;
import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;
import java.util.Optional;
import org.apache.spark.SparkConf;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.internal.SessionState;
import scala.Option;

/** A session of Spark, and what the plugin asks it. */
public final class ActiveSession {

  private final SparkSession session;

  private ActiveSession(SparkSession session) {
    this.session = session;
  }

  /** The session that is active in this thread. Throws what Spark throws if there is none. */
  public static ActiveSession get() {
    return new ActiveSession(SparkSession.active());
  }

  /** The session that is active in this thread; empty if there is none. */
  public static Optional<ActiveSession> find() {
    Option<SparkSession> active = SparkSession.getActiveSession();
    return active.isEmpty() ? Optional.empty() : Optional.of(new ActiveSession(active.get()));
  }

  /** The options with which Spark started. */
  public SparkConf startUpOptions() {
    return session.sparkContext().getConf();
  }

  /** Whether the session has an option, which a user may have SET. */
  public boolean hasOption(String name) {
    return session.sessionState().conf().contains(name);
  }

  /** The UUID by which Spark Connect lists the session. */
  public String uuid() {
    return SparkClasses.uuid(session);
  }

  /** The version of Spark. */
  public String version() {
    return session.version();
  }

  /**
   * The catalog of that name. Throws what Spark throws for a catalog that is unknown, or does not
   * start.
   */
  public CatalogPlugin catalog(String name) {
    return (CatalogPlugin) ask("catalog", name);
  }

  /** The catalog that the session uses. Throws what Spark throws if it does not start. */
  public CatalogPlugin currentCatalog() {
    return (CatalogPlugin) ask("currentCatalog");
  }

  /** The namespace that the session uses, in its current catalog. */
  public String[] currentNamespace() {
    return (String[]) ask("currentNamespace");
  }

  /**
   * Calls the catalog manager of the session, which is a class up to Spark 4.1 and an interface in
   * newer versions. Throws what the call throws.
   */
  private Object ask(String method, String... arguments) {
    Class<?>[] types = Arrays.stream(arguments).map(String::getClass).toArray(Class<?>[]::new);
    try {
      Object manager = SessionState.class.getMethod("catalogManager").invoke(session.sessionState());
      return CatalogManager.class.getMethod(method, types).invoke(manager, (Object[]) arguments);
    } catch (InvocationTargetException error) {
      throw LakewardException.unchecked(error.getCause());
    } catch (ReflectiveOperationException changed) {
      throw ChangedClass.error(CatalogManager.class.getName(), changed);
    }
  }
}
