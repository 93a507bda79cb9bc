package io.lakeward.spark.service;

import io.lakeward.spark.version.SparkClasses;
import org.apache.spark.sql.classic.SparkSession;
import scala.Option;

/** The database that a session uses: names in the arguments of a CALL may lack it. */
public final class SessionDatabase {

  private SessionDatabase() {}

  /** The database of {@code catalog} that the active session uses; empty if it uses none of it. */
  public static String of(String catalog) {
    Option<SparkSession> session = SparkSession.getActiveSession();
    if (session.isEmpty()) {
      return "";
    }
    String[] namespace = SparkClasses.currentNamespace(session.get());
    boolean isOurs =
        SparkClasses.currentCatalog(session.get()).name().equals(catalog) && namespace.length == 1;
    return isOurs ? namespace[0] : "";
  }
}
