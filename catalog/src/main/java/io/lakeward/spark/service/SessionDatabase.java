package io.lakeward.spark.service;

import io.lakeward.spark.version.ActiveSession;
import java.util.Optional;

/** The database that a session uses: names in the arguments of a CALL may lack it. */
public final class SessionDatabase {

  private SessionDatabase() {}

  /** The database of {@code catalog} that the active session uses; empty if it uses none of it. */
  public static String of(String catalog) {
    Optional<ActiveSession> session = ActiveSession.find();
    if (session.isEmpty()) {
      return "";
    }
    String[] namespace = session.get().currentNamespace();
    boolean isOurs =
        session.get().currentCatalog().name().equals(catalog) && namespace.length == 1;
    return isOurs ? namespace[0] : "";
  }
}
