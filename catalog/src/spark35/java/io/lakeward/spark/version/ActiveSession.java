package io.lakeward.spark.version;

import java.util.Optional;
import org.apache.spark.SparkConf;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import scala.Option;

/** A session of Spark, whose class differs between Spark 4 and Spark 3.5. */
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

  /** The UUID of the session. */
  public String uuid() {
    return session.sessionUUID();
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
    return session.sessionState().catalogManager().catalog(name);
  }

  /** The catalog that the session uses. Throws what Spark throws if it does not start. */
  public CatalogPlugin currentCatalog() {
    return session.sessionState().catalogManager().currentCatalog();
  }

  /** The namespace that the session uses, in its current catalog. */
  public String[] currentNamespace() {
    return session.sessionState().catalogManager().currentNamespace();
  }
}
