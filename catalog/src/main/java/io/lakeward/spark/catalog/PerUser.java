package io.lakeward.spark.catalog;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Supplier;

/**
 * Caches one value per recent user: several users may share a session, and no user may see what the
 * service showed to another. Not thread-safe.
 */
final class PerUser<T> {

  /** Most users in the cache; more than a shared session has at a time. */
  private static final int USERS = 1_000;

  private final Map<String, T> kept =
      new LinkedHashMap<>(16, 0.75f, true) {
        @Override
        protected boolean removeEldestEntry(Map.Entry<String, T> eldest) {
          return size() > USERS;
        }
      };

  /** The cached value of the user, or a new one, which is then cached. */
  T of(String user, Supplier<T> maker) {
    return kept.computeIfAbsent(user, missing -> maker.get());
  }

  /** Drops everything. */
  void clear() {
    kept.clear();
  }
}
