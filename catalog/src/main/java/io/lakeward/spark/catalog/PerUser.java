package io.lakeward.spark.catalog;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Supplier;

/**
 * Keeps something of each user who asked lately: a session may be shared by several users, and
 * nothing that the service showed one of them is for another. Not thread-safe.
 */
final class PerUser<T> {

  /** Users kept; more than a shared session has at a time. */
  private static final int USERS = 1_000;

  private final Map<String, T> kept =
      new LinkedHashMap<>(16, 0.75f, true) {
        @Override
        protected boolean removeEldestEntry(Map.Entry<String, T> eldest) {
          return size() > USERS;
        }
      };

  /** What is kept of the user; made if there is nothing. */
  T of(String user, Supplier<T> maker) {
    return kept.computeIfAbsent(user, missing -> maker.get());
  }

  /** Drops everything. */
  void clear() {
    kept.clear();
  }
}
